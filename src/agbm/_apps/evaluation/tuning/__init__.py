"""A search for better parameters than the default on the user's rows, with Optuna: `agbm tune`.

The default is the first trial, so the result of a search is never worse on the validation rows. Trials use early
stopping, and are pruned if most others had a lower loss at the same point. Points are not iterations, since trials with
a small learning rate make less progress per iteration, but sums of the final weights of the trees so far: 1, 2, 4, ...

The study is a journal file of Optuna, to which each trial is added when it ends: its contents survive a kill at any
moment, there are no unfinished trials, and several processes may search at once.
"""

from .results import Trial, Tuned
from .search import tune

__all__ = ["Trial", "Tuned", "tune"]
