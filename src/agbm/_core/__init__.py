"""The algorithms: boosting, losses, learners, ensembles, the training loop, exact sums. No input or output."""
