"""What to use instead of parameters without a counterpart, for parameters that several libraries have."""

METRIC = "scoring names the metrics of scikit-learn for early stopping; the loss is the default"
L1 = "leaf values have L2 regularization only; use l2_regularization or min_split_gain"
HESSIAN = "classification losses have a fixed minimum sum of hessians per leaf; min_samples_leaf limits the rows"
DELTA = "the loss limits the Newton step of each row (to six log-odds, or a factor of e^2)"
GPU = "device is 'cpu' or 'cuda', an NVIDIA GPU"
BOOSTING = "boosted trees are the only booster; subsample samples rows, dropout is DART"
FREQUENCY = "rows are sampled in every iteration"
TOL = "tol is relative here: a fraction of the decrease of the validation loss since the start"
CATEGORY = "splits on categories have no parameters"
EVEN_ROWS = "rows are sampled uniformly; use subsample"
EVEN_FEATURES = "features are sampled uniformly"

SUPPORTED_BOOSTERS = ("gbdt", "gbrt", "gbtree", "dart")
"""Values of the parameters of BOOSTING that have a counterpart."""
