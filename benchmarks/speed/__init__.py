"""Time and memory of fits, predictions and other operations on one machine."""
