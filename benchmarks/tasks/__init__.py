"""Comparisons for one task each: counts, rankings, survival, uncertainty, probabilities, updates."""
