"""Reruns of the paper's experiments: its table, its figures, and the quantities of its proof."""
