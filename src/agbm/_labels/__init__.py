"""Labels: what y is, how it is encoded, which loss fits to it, and how scores become predictions.

One class per kind of label: numbers, classes, matrices of labels, relevances, times. It imports `_data` and everything
below it.
"""
