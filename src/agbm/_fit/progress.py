"""Progress displays: a bar in a terminal or notebook, occasional lines elsewhere.

`progress` is for fits, `counting` for any other work with a known number of steps. Both pass a `State` to one of three
displays. Updates are cheap: a display renders the latest state only a few times per second.
"""

from __future__ import annotations

import math
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from html import escape
from importlib.util import find_spec
from typing import Any, Protocol, TextIO

from .._core.training import Record, Watcher
from .._losses import Loss, traits_of

_clock = time.monotonic


def readable(value: float, digits: int = 4) -> str:
    """Format a number for display: significant digits, but all digits before the decimal point, as in 30,383."""
    if not 1_000 <= abs(value) < 1e15:
        return f"{value:.{digits}g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals else text


@contextmanager
def progress(
    description: str, max_iter: int, verbose: int, stream: TextIO | None = None, loss: Loss | None = None,
    score: str | None = None,
) -> Iterator[Watcher | None]:  # fmt: skip
    """Yield a callback that shows the progress of a fit; if not verbose, yield None and print nothing.

    If the loss is half the squared error, the root mean squared error is shown, which has the unit of the labels.
    `score` names the score that early stopping uses, if it does not use the loss.
    """
    if not verbose:
        yield None
        return
    best, roots = _Best(score), traits_of(loss).shows_roots
    with _shown(description, stream) as show:

        def update(record: Record) -> None:
            best(record)
            show(State(record.iteration, max_iter, _losses(record, best, roots), may_stop_early=True))

        yield update


@contextmanager
def counting(description: str, stream: TextIO | None = None) -> Iterator[Callable[..., None]]:
    """Yield a function `update(done, total, text="")` that shows how many steps are done."""
    with _shown(description, stream) as show:

        def update(done: int, total: int, text: str = "") -> None:
            show(State(done, total, lambda: [text] if text else []))

        yield update


@dataclass(frozen=True, slots=True)
class State:
    """Progress at one moment, with words that are only computed when they are displayed."""

    done: int
    total: int
    words: Callable[[], Sequence[str]]
    """In increasing order of importance: the first ones are omitted if space is short."""
    may_stop_early: bool = False
    """Whether the work may be complete before all steps are done. The remaining time is then an upper bound."""
    is_complete: bool = False
    """Whether the work ended early and without an error."""


class _Best:
    """The lowest validation loss, or the highest score, so far and its iteration.

    The training loss counts if there are no validation rows.
    """

    def __init__(self, score: str | None) -> None:
        self.score, self.value, self.iteration = score, math.inf if score is None else -math.inf, 0

    def __call__(self, record: Record) -> None:
        if self.score is not None:
            value = record.scores[self.score]
            better = value > self.value
        else:
            value = record.train_loss if math.isnan(record.validation_loss) else record.validation_loss
            better = value < self.value
        if better:
            self.value, self.iteration = value, record.iteration


def _losses(record: Record, best: _Best, roots: bool) -> Callable[[], Sequence[str]]:
    name = "RMSE" if roots else "loss"

    def number(loss: float) -> str:
        return readable(math.sqrt(2.0 * loss) if roots else loss, 5)

    def words() -> Sequence[str]:
        parts = [f"trees {record.trees:,}", f"train {name} {number(record.train_loss)}"]
        if not math.isnan(record.validation_loss):
            parts.append(f"validation {name} {number(record.validation_loss)}")
        parts += [f"{score.replace('_', ' ')} {readable(value)}" for score, value in record.scores.items()]
        value = number(best.value) if best.score is None else readable(best.value)
        return [*parts, f"best {value} at {best.iteration:,}"]

    return words


class _Display(Protocol):
    def show(self, state: State) -> None:
        """Accept the latest state."""

    def close(self, state: State | None) -> None:
        """Show the final state, which stays visible; None if nothing was shown."""


@contextmanager
def _shown(description: str, stream: TextIO | None) -> Iterator[Callable[[State], None]]:
    display, last = _display(description, stream), None

    def show(state: State) -> None:
        nonlocal last
        last = state
        display.show(state)

    try:
        yield show
        if last is not None and last.may_stop_early and last.done < last.total:
            last = replace(last, is_complete=True)
    finally:
        display.close(last)


def _display(description: str, stream: TextIO | None) -> _Display:
    if stream is None and _in_notebook():
        return _Notebook(description)
    stream = sys.stderr if stream is None else stream
    if stream.isatty() and find_spec("rich") is not None:
        return _Bar(description, stream)
    return _Lines(description, stream)


def _in_notebook() -> bool:
    """Return whether this runs in a Jupyter kernel; IPython in a terminal has no kernel."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None


SHORTEST_LEFT = 0.1
"""Less than this many seconds are not shown: the estimate is not that exact, and the last step may take longer."""


class _Times:
    """Elapsed time, and remaining time estimated from the most recent steps.

    Earlier steps are ignored because a resumed run replays finished steps much faster than it computes new ones.
    """

    def __init__(self) -> None:
        self._began = _clock()
        self._seen: deque[tuple[float, int]] = deque(maxlen=100)

    def elapsed(self) -> float:
        return _clock() - self._began

    def words(self, state: State, final: bool) -> str:
        elapsed = _duration(self.elapsed())
        if state.is_complete:
            return f"{elapsed}, stopped early"
        left = None if final else self._left(state)
        bound = "at most " if state.may_stop_early else ""
        return elapsed if left is None else f"{elapsed}, {bound}{_duration(left)} left"

    def _left(self, state: State) -> float | None:
        now = _clock()
        if not self._seen or self._seen[-1][1] != state.done:
            self._seen.append((now, state.done))
        (first, begun), (last, done) = self._seen[0], self._seen[-1]
        if done >= state.total or done <= begun or last <= first:
            return None
        pace = (last - first) / (done - begun)
        # A step that takes longer than the earlier ones did may end at any moment; those after it are still to come.
        left = (state.total - done) * pace - min(now - last, pace)
        return left if left >= SHORTEST_LEFT else None


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _count(state: State) -> str:
    return f"{state.done:,}/{state.total:,}"


class _Lines:
    """Display for files and pipes: a line every two seconds at first, then less and less often, and one at the end."""

    seconds_between = 2.0
    share_between = 0.1
    """Share of the elapsed time that must pass between lines; an hour takes about sixty lines."""

    def __init__(self, description: str, stream: TextIO) -> None:
        self._description = description
        self._stream = stream
        self._times = _Times()
        self._printed: State | None = None
        self._printed_at = 0.0

    def show(self, state: State) -> None:
        elapsed = self._times.elapsed()
        if elapsed - self._printed_at < max(self.seconds_between, self.share_between * self._printed_at):
            return
        self._print(state, final=False)
        self._printed_at = elapsed
        self._printed = state

    def close(self, state: State | None) -> None:
        if state is not None and state is not self._printed:
            self._print(state, final=True)

    def _print(self, state: State, final: bool) -> None:
        words = [self._description, _count(state), *state.words(), self._times.words(state, final)]
        print("  ".join(words), file=self._stream, flush=True)


class _Bar:
    """Display for terminals: a progress bar and a line of words at the bottom, redrawn by a thread of rich."""

    refresh_per_second = 5
    longest_times = "1:00:00, at most 1:00:00 left"
    """Space for this text is always reserved, so that the bar keeps its length."""

    def __init__(self, description: str, stream: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live

        self._description = description
        self._times = _Times()
        self._state: State | None = None
        self._final = False
        self._console = Console(file=stream)
        # Output of callbacks to the terminal appears above the bar; redirected output is left alone.
        self._live = Live(
            console=self._console,
            get_renderable=self._draw,
            refresh_per_second=self.refresh_per_second,
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=sys.stderr.isatty(),
        )

    def show(self, state: State) -> None:
        first, self._state = self._state is None, state
        if first:
            self._live.start()

    def close(self, state: State | None) -> None:
        self._final, self._state = True, state
        self._live.stop()

    def _draw(self) -> Any:
        from rich.console import Group
        from rich.text import Text

        state = self._state
        if state is None:
            return Text()
        width = self._console.width
        lines = [self._first_line(state, width)]
        if words := _fitting(state.words(), width):
            lines.append(Text(words, no_wrap=True, overflow="ellipsis"))
        return Group(*lines)

    def _first_line(self, state: State, width: int) -> Any:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        count = _count(state).rjust(2 * len(f"{state.total:,}") + 1)
        texts = self._description, count, self._times.words(state, self._final)
        cells: list[Any] = [Text(text, no_wrap=True, overflow="ellipsis") for text in texts]
        room = width - len(f"{self._description}  {count} {self.longest_times}")
        if room >= 10:
            # rich draws a bar that is full in another colour: green.
            total = state.done if state.is_complete else state.total
            cells.insert(1, ProgressBar(total=total, completed=state.done, width=min(room, 40)))
        grid = Table.grid(padding=(0, 1))
        grid.add_row(*cells)
        return grid


def _fitting(words: Sequence[str], width: int) -> str:
    """Join as many of the last words as fit into the width."""
    first = 0
    while first < len(words) - 1 and len("  ".join(words[first:])) > width:
        first += 1
    return "  ".join(words[first:])


class _Notebook:
    """Display for notebooks: one cell output, updated in place, with plain text as the fallback for HTML.

    It sets no colours, so that it fits any theme.
    """

    seconds_between = 0.25

    def __init__(self, description: str) -> None:
        self._description = description
        self._times = _Times()
        self._shown_at = -math.inf
        self._handle: Any = None

    def show(self, state: State) -> None:
        now = _clock()
        if now - self._shown_at >= self.seconds_between:
            self._shown_at = now
            self._send(state, final=False)

    def close(self, state: State | None) -> None:
        if state is not None:
            self._send(state, final=True)

    def _send(self, state: State, final: bool) -> None:
        from IPython.display import display

        words = [_count(state), *state.words(), self._times.words(state, final)]
        total = state.done if state.is_complete else state.total
        bar = f'<progress value="{state.done}" max="{total}" style="vertical-align: middle"></progress>'
        cells = " ".join(
            f'<span style="margin-right: 1ex; white-space: nowrap">{escape(word)}</span>' for word in words
        )
        bundle = {
            "text/plain": "  ".join([self._description, *words]),
            "text/html": f'<div style="font-variant-numeric: tabular-nums">{escape(self._description)} {bar} {cells}'
            "</div>",
        }
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)
