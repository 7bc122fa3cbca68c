"""The paper's experiments once more: its table, its figures, and its theory along a run."""
