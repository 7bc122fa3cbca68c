"""How far something is, for people who wait for it: a bar in a terminal or a notebook, a line now and then elsewhere.

`progress` is for fits, `counting` for anything that has parts to count. What they say is a `State`; three displays
know how to show one. Updates cost next to nothing: displays look at the newest state a few times a second.
"""

from __future__ import annotations

import math
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from importlib.util import find_spec
from typing import Any, Protocol, TextIO

from ._core.training import Record, Watcher

_clock = time.monotonic


@contextmanager
def progress(description: str, max_iter: int, verbose: int, stream: TextIO | None = None) -> Iterator[Watcher | None]:
    """A watcher that shows how far a fit is; None, and not a letter on any stream, if not verbose."""
    if not verbose:
        yield None
        return
    best = _Best()
    with _shown(description, stream) as show:

        def update(record: Record) -> None:
            best(record)
            # A run may stop early, so that what is left of its time is a bound.
            show(State(record.iteration, max_iter, _losses(record, best), "at most "))

        yield update


@contextmanager
def counting(description: str, stream: TextIO | None = None) -> Iterator[Callable[..., None]]:
    """A function (done, total, text="") that shows how many of the parts of some work are done."""
    with _shown(description, stream) as show:

        def update(done: int, total: int, text: str = "") -> None:
            show(State(done, total, lambda: [text] if text else []))

        yield update


@dataclass(frozen=True, slots=True)
class State:
    """How far it is, and what else there is to say, in words that are made only if somebody reads them."""

    done: int
    total: int
    words: Callable[[], Sequence[str]]
    """The less important ones first: where there is little room, these are left out."""
    bound: str = ""
    """Stands before the time that is left."""


class _Best:
    """The lowest validation loss so far, or training loss where no rows are held out, and its iteration."""

    def __init__(self) -> None:
        self.loss, self.iteration = math.inf, 0

    def __call__(self, record: Record) -> None:
        loss = record.train_loss if math.isnan(record.validation_loss) else record.validation_loss
        if loss < self.loss:
            self.loss, self.iteration = loss, record.iteration


def _losses(record: Record, best: _Best) -> Callable[[], Sequence[str]]:
    def words() -> Sequence[str]:
        said = [f"trees {record.trees}", f"train loss {record.train_loss:.5g}"]
        if not math.isnan(record.validation_loss):
            said.append(f"validation loss {record.validation_loss:.5g}")
        return [*said, f"best {best.loss:.5g} at {best.iteration}"]

    return words


class _Display(Protocol):
    def show(self, state: State) -> None:
        """Take the newest state."""

    def close(self) -> None:
        """Show the last state, which stays."""


@contextmanager
def _shown(description: str, stream: TextIO | None) -> Iterator[Callable[[State], None]]:
    display = _display(description, stream)
    try:
        yield display.show
    finally:
        display.close()


def _display(description: str, stream: TextIO | None) -> _Display:
    if stream is None and _in_notebook():
        return _Notebook(description)
    stream = sys.stderr if stream is None else stream
    if stream.isatty() and find_spec("rich") is not None:
        return _Bar(description, stream)
    return _Lines(description, stream)


def _in_notebook() -> bool:
    """Whether this runs in a kernel of Jupyter; IPython in a terminal has none."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None


class _Times:
    """Time since the start, and until the end at the pace of the last parts.

    Of the last ones, because the first may have been there already: a run that goes on is quick where it has been.
    """

    def __init__(self) -> None:
        self._began = _clock()
        self._seen: deque[tuple[float, int]] = deque(maxlen=100)

    def elapsed(self) -> float:
        return _clock() - self._began

    def words(self, state: State, final: bool) -> str:
        left = None if final else self._left(state)
        told = "" if left is None else f", {state.bound}{_duration(left)} left"
        return f"{_duration(self.elapsed())}{told}"

    def _left(self, state: State) -> float | None:
        now = _clock()
        if not self._seen or self._seen[-1][1] != state.done:
            self._seen.append((now, state.done))
        (first, begun), (last, done) = self._seen[0], self._seen[-1]
        if done >= state.total or done <= begun or last <= first:
            return None
        return max(0.0, (state.total - done) * (last - first) / (done - begun) - (now - last))


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class _Lines:
    """A line every two seconds at first, later ever more rarely, and one at the end: for files and pipes."""

    seconds_between = 2.0
    share_between = 0.1
    """Of the time so far: an hour takes some sixty lines."""

    def __init__(self, description: str, stream: TextIO) -> None:
        self._description = description
        self._stream = stream
        self._times = _Times()
        self._last: State | None = None
        self._printed_at = 0.0

    def show(self, state: State) -> None:
        elapsed = self._times.elapsed()
        if elapsed - self._printed_at < max(self.seconds_between, self.share_between * self._printed_at):
            self._last = state
            return
        self._print(state, final=False)
        self._printed_at = elapsed
        self._last = None

    def close(self) -> None:
        if self._last is not None:
            self._print(self._last, final=True)

    def _print(self, state: State, final: bool) -> None:
        words = [self._description, f"{state.done}/{state.total}", *state.words(), self._times.words(state, final)]
        print("  ".join(words), file=self._stream, flush=True)


class _Bar:
    """Two lines at the foot of a terminal that a thread of rich draws anew: how far it is, and what else there is."""

    refresh_per_second = 5
    longest_times = "1:00:00, at most 1:00:00 left"
    """There is always room for it, so that the bar keeps its length."""

    def __init__(self, description: str, stream: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live

        self._description = description
        self._times = _Times()
        self._state: State | None = None
        self._final = False
        self._console = Console(file=stream)
        # What a callback prints goes above the bar if it is for the terminal, and where it belongs if it is not.
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

    def close(self) -> None:
        self._final = True
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

        count = f"{state.done:{len(str(state.total))}}/{state.total}"
        texts = self._description, count, self._times.words(state, self._final)
        cells: list[Any] = [Text(text, no_wrap=True, overflow="ellipsis") for text in texts]
        room = width - len(f"{self._description}  {count} {self.longest_times}")
        if room >= 10:
            cells.insert(1, ProgressBar(total=state.total, completed=state.done, width=min(room, 40)))
        grid = Table.grid(padding=(0, 1))
        grid.add_row(*cells)
        return grid


def _fitting(words: Sequence[str], width: int) -> str:
    """As many of the words, from the last one on, as there is room for."""
    first = 0
    while first < len(words) - 1 and len("  ".join(words[first:])) > width:
        first += 1
    return "  ".join(words[first:])


class _Notebook:
    """One output of a cell, changed in place; plain text where HTML is not shown. No colours: themes have theirs."""

    seconds_between = 0.25

    def __init__(self, description: str) -> None:
        self._description = description
        self._times = _Times()
        self._last: State | None = None
        self._shown_at = -math.inf
        self._handle: Any = None

    def show(self, state: State) -> None:
        self._last = state
        now = _clock()
        if now - self._shown_at >= self.seconds_between:
            self._shown_at = now
            self._send(state, final=False)

    def close(self) -> None:
        if self._last is not None:
            self._send(self._last, final=True)

    def _send(self, state: State, final: bool) -> None:
        from IPython.display import display

        words = [f"{state.done}/{state.total}", *state.words(), self._times.words(state, final)]
        bar = f'<progress value="{state.done}" max="{state.total}" style="vertical-align: middle"></progress>'
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
