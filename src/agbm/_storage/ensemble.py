"""The ensembles of a model, one per member, as arrays, for model files and checkpoints.

The forests, functions and updates of the members follow each other. All members have the same number of updates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from .._base.types import AnyArray
from .._core.ensemble import Ensemble, Update
from .._tree.forest import NODE, Forest, Sizes, Stack
from .container import ModelFileError, Stored, whole

MAX_MEMBERS = 1_000
MAX_UPDATES = 100_000

# Arrays and their types, for the stack of forests, the functions and the updates.
_STACK: dict[str, Any] = {
    "sizes": np.int64,
    "roots": np.int32,
    "first_column": np.int32,
    "nodes": NODE,
    "category_start": np.int64,
    "category_words": np.uint64,
    "value": np.float64,
}
_FUNCTIONS = {"function_model": np.int64, "function_number": np.int64}
_UPDATES: dict[str, Any] = {
    "theta": np.float64,
    "eta": np.float64,
    "primary": np.int64,
    "alpha": np.float64,
    "momentum": np.int64,
    "restart": np.uint8,
    "n_dropped": np.int64,
}


def to_arrays(ensembles: Sequence[Ensemble]) -> dict[str, AnyArray]:
    """The arrays of ensembles of trees."""
    ensemble = _joined(ensembles)
    forests = [cast(Forest, model) for model in ensemble.models]
    arrays: dict[str, AnyArray] = {name: np.zeros(0, dtype) for name, dtype in _STACK.items()}
    if forests:
        stack = Stack.of(forests)
        arrays = {name: getattr(stack, name).ravel() for name in _STACK}
        arrays["nodes"] = _without_padding(arrays["nodes"])
    functions = np.array(ensemble.functions, dtype=np.int64).reshape(-1, 2)
    arrays |= dict(zip(_FUNCTIONS, functions.T, strict=True))
    rows = [
        (u.theta, u.eta, u.primary, u.alpha, -1 if u.momentum is None else u.momentum, u.restart, len(u.dropped))
        for u in ensemble.updates
    ]
    for column, (name, dtype) in enumerate(_UPDATES.items()):
        arrays[name] = np.array([row[column] for row in rows], dtype=dtype)
    arrays["dropped"] = np.array([i for u in ensemble.updates for i in u.dropped], dtype=np.int64)
    return arrays


def _without_padding(records: AnyArray) -> AnyArray:
    """The same records with zeros between their fields, where joblib and skops leave whatever was in memory."""
    clean = np.zeros(records.nbytes, dtype=np.uint8).view(records.dtype)  # zeros_like would leave the padding as it is
    for name in records.dtype.names or ():
        clean[name] = records[name]
    return clean


def _joined(ensembles: Sequence[Ensemble]) -> Ensemble:
    """One ensemble with everything that the given ones contain, numbered through; only dropped iterations are not."""
    if len(ensembles) == 1:
        return ensembles[0]
    joined = Ensemble()
    for ensemble in ensembles:
        n_models, n_functions = len(joined.models), len(joined.functions)
        joined.functions += [(n_models + model, number) for model, number in ensemble.functions]
        joined.updates += [_renumbered(update, n_functions) for update in ensemble.updates]
        joined.models += ensemble.models
    return joined


def _parted(joined: Ensemble, n_members: int) -> list[Ensemble]:
    """The ensembles of which `_joined` is made."""
    if n_members == 1:
        return [joined]
    length = len(joined) // n_members
    ensembles, n_models, n_functions = [], 0, 0
    for member in range(n_members):
        updates = joined.updates[member * length : (member + 1) * length]
        end = max((max(u.primary, -1 if u.momentum is None else u.momentum) + 1 for u in updates), default=n_functions)
        functions = joined.functions[n_functions:end]
        last = max((model + 1 for model, _ in functions), default=n_models)
        if functions and functions[0][0] != n_models:
            raise ModelFileError(f"functions: member {member} shares a model with another one")
        functions = [(model - n_models, number) for model, number in functions]
        updates = [_renumbered(update, -n_functions) for update in updates]
        ensembles.append(Ensemble(joined.models[n_models:last], functions, updates))
        n_models, n_functions = last, end
    return ensembles


def _renumbered(update: Update, by: int) -> Update:
    """An update whose functions have other numbers."""
    momentum = None if update.momentum is None else update.momentum + by
    return update._replace(primary=update.primary + by, momentum=momentum)


def stack_of(stored: Stored, n_outputs: int) -> Stack | None:
    """The forests, or None if there are none. Checks sizes; nodes are checked when they are used."""
    arrays = {name: stored.array(name, dtype) for name, dtype in _STACK.items()}
    n_sizes = len(Sizes._fields)
    if len(arrays["sizes"]) % n_sizes:
        raise ModelFileError(f"sizes: section 'sizes' needs {n_sizes} entries per forest, got {len(arrays['sizes'])}")
    if not len(arrays["sizes"]):
        return None
    stack = Stack(**{**arrays, "sizes": arrays["sizes"].reshape(-1, n_sizes)})
    try:
        stack.check(n_outputs)
    except ValueError as error:
        raise ModelFileError(str(error)) from error
    return stack


def ensembles_of(stored: Stored, stack: Stack | None, n_features: int, n_outputs: int) -> list[Ensemble]:
    """The ensembles of the members; checks all numbers of the updates. Files without a number of members have one."""
    n_members = whole(stored.description, "n_members", 1, MAX_MEMBERS) if "n_members" in stored.description else 1
    models = [] if stack is None else stack.forests(n_features, n_outputs)
    columns = [stored.array(name, dtype).tolist() for name, dtype in _FUNCTIONS.items()]
    if len(columns[0]) != len(columns[1]):
        raise ModelFileError("sizes: the sections of the functions have different lengths")
    functions = list(zip(*columns, strict=True))
    for model, number in functions:
        if not (0 <= model < len(models) and 0 <= number < models[model].n_functions):
            raise ModelFileError(f"functions: function {number} of model {model} does not exist")
    if sorted(set(functions)) != functions or len(set(columns[0])) != len(models):
        raise ModelFileError("functions: every model needs at least one; they must be in order, without repetition")
    return _parted(Ensemble(models, functions, _updates(stored, len(functions), n_members)), n_members)


def _updates(stored: Stored, n_functions: int, n_members: int) -> list[Update]:
    columns = {name: stored.array(name, dtype) for name, dtype in _UPDATES.items()}
    if len({len(column) for column in columns.values()}) > 1:
        raise ModelFileError("sizes: the sections of the updates have different lengths")
    for name in ("theta", "eta", "alpha"):
        if not np.isfinite(columns[name]).all():
            raise ModelFileError(f"updates: {name} must be finite")
    if len(columns["theta"]) % n_members:
        raise ModelFileError(f"sizes: the iterations do not divide into {n_members} members")
    length = max(len(columns["theta"]) // n_members, 1)
    dropped = stored.array("dropped", np.int64).tolist()
    updates: list[Update] = []
    done = used = 0
    for theta, eta, primary, alpha, momentum, restart, n in zip(*(c.tolist() for c in columns.values()), strict=True):
        if primary != used or momentum not in (-1, used, used + 1) or restart not in (0, 1):
            raise ModelFileError(f"updates: iteration {len(updates)} must use the next functions, from {used} on")
        used = max(primary, momentum) + 1
        if not 0 <= n <= len(dropped) - done:
            raise ModelFileError(f"updates: iteration {len(updates)} drops {n} iterations, which do not exist")
        earlier = tuple(dropped[done : done + n])
        done += n
        if any(not 0 <= i < len(updates) % length for i in earlier) or sorted(set(earlier)) != list(earlier):
            raise ModelFileError(f"updates: iteration {len(updates)} must drop earlier iterations, in order, each once")
        updates.append(Update(theta, eta, primary, alpha, None if momentum < 0 else momentum, bool(restart), earlier))
    if done != len(dropped):
        raise ModelFileError("sizes: section 'dropped' is too long")
    if used != n_functions:
        raise ModelFileError(f"sizes: the iterations use {used} functions, but there are {n_functions}")
    return updates


def model_updates_of(stored: Stored) -> tuple[tuple[str, int], ...]:
    """The updates of a model since its fit: pairs of a mode and the iteration that it began at."""
    pairs = stored.entry("updates", list) if "updates" in stored.description else []
    valid = all(isinstance(pair, list) and [type(part) for part in pair] == [str, int] for pair in pairs)
    firsts = [first for mode, first in pairs if mode == "trees"] if valid else []
    if not valid or min(firsts, default=0) < 0 or sorted(firsts) != firsts or len(pairs) > MAX_UPDATES:
        raise ModelFileError("updates: must be pairs of a mode and an iteration, in order")
    return tuple((mode, first) for mode, first in pairs)
