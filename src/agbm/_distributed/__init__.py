"""Training on rows that are in other processes."""
