"""`agbm verify`: check whether a model is the result of training on given data."""

from __future__ import annotations

import argparse
import io
import random
import shlex
import time
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr
from typing import Any

from ...._estimators.base import loaded, verified_by
from ...._fit.progress import readable
from ...._lifecycle.differences import Content, Difference
from ...._lifecycle.verification import ALL, Verification
from ..command_options import add_commands
from ..output import listed, show, show_json, speaks
from ..reading.data import ask
from .diff import in_json, in_words
from .train import parts_of


def run(arguments: argparse.Namespace) -> int:
    """Verify the model and print the result; return 0 if nothing differs."""
    saved = loaded(arguments.model)
    content, asked = Content.of(saved), _asked(saved.notes, arguments)
    wanted = _wanted(arguments, saved.model.best_iteration)
    saved.estimator.set_params(n_jobs=arguments.jobs, verbose=int(speaks(arguments)))
    question = ask(asked, streams=asked.stream)
    rows = parts_of(question, asked)[0]
    began = time.perf_counter()
    found = verified_by(saved.estimator, lambda checked: question.fit(checked, rows), wanted)
    seconds = time.perf_counter() - began
    differences = [*content.chain_differences(), *found.differences]
    if arguments.json:
        show_json({
            "verified": not differences,
            "fingerprint": content.fingerprint,
            "differences": in_json(differences),
            "iterations": found.iterations,
            "unchecked": found.unchecked,
            "seconds": seconds,
        })  # fmt: skip
    else:
        print(f"{arguments.model} and {arguments.data}")
        show(_in_words(content, found, differences, seconds))
    return 1 if differences else 0


def _wanted(arguments: argparse.Namespace, best: int) -> str | int | list[int]:
    """Return the iterations to grow again."""
    if arguments.iteration is not None:
        return int(arguments.iteration)
    if arguments.sample is None:
        return ALL
    if not 1 <= arguments.sample <= best:
        raise ValueError(f"--sample must be from 1 to {best}, the iterations of the model; got {arguments.sample}.")
    # Not reproducible: who trains a model must not know which iterations will be checked.
    return sorted(random.SystemRandom().sample(range(1, best + 1), arguments.sample))


def _asked(notes: Mapping[str, str], arguments: argparse.Namespace) -> argparse.Namespace:
    """Return the arguments of the command that trained the model, with another path of the data.

    The command comes from the model file; only the options on how the table is read and divided are used.
    """
    try:
        program, command, *words = shlex.split(notes.get("command", ""))
        if (program, command) != ("agbm", "train"):
            raise ValueError
        parser = argparse.ArgumentParser()
        add_commands(parser.add_subparsers(), "train")
        with redirect_stderr(io.StringIO()):
            asked = parser.parse_args([command, *words])
    except (ValueError, SystemExit) as error:
        raise ValueError(
            f"{arguments.model} does not record a command of agbm train that can be read, so it is not known which "
            "rows and columns it was trained on; verify it in Python: agbm.load(path).verify(X, y)."
        ) from error
    asked.data, asked.jobs, asked.json, asked.quiet = arguments.data, arguments.jobs, arguments.json, arguments.quiet
    return asked


def _in_words(
    content: Content, found: Verification, differences: Sequence[Difference], seconds: float
) -> dict[str, Any]:
    good = "verified: the data give this model, bit for bit"
    if len(found.iterations) < content.model.n_iter:
        good = "verified as far as it was checked: nothing differs"
    facts = {"result": "NOT VERIFIED" if differences else good}
    facts["fingerprint"] = content.fingerprint
    facts |= in_words(differences, "differs")
    if found.iterations:
        n = len(found.iterations)
        which = "" if n == content.model.n_iter else f": {listed(list(map(str, found.iterations)))}"
        facts["grown again"] = f"{n:,} of {content.model.n_iter:,} iterations{which}"
    facts["not checked"] = "; ".join(found.unchecked)
    facts["time"] = f"{readable(seconds, 3)} s"
    return facts
