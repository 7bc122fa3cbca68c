"""Progress in terminals, notebooks and files."""

import io
import os
import pty
import re
import select
import subprocess
import sys
import threading
from contextlib import nullcontext
from itertools import pairwise
from types import ModuleType

import nbclient
import nbformat
import numpy as np
import pytest

import agbm._fit.progress as module
from agbm import AGBMRegressor
from agbm._core.training import Record
from agbm._fit.progress import counting, progress
from agbm.losses import HalfSquaredError

HELD_OUT = [0.9, 0.5, 0.25, 0.3, 0.25, 0.4]
"""Validation losses, the lowest at iteration 2."""


def record(iteration, validation_loss=float("nan")):
    return Record(iteration, 2 * iteration, 1.0 / (iteration + 1), validation_loss)


@pytest.fixture
def clock(monkeypatch):
    """A list of one time, which tests set."""
    now = [100.0]
    monkeypatch.setattr(module, "_clock", lambda: now[0])
    return now


class Terminal(io.StringIO):
    def isatty(self):
        return True


def lines_of(text):
    """The lines of a terminal, without control characters."""
    return re.split(r"[\r\n]+", re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "", text))


def test_lines_without_a_terminal(capfd):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    model = AGBMRegressor(method="agbm", loss="absolute_error", max_iter=20, early_stopping=False, verbose=1)
    losses = model.fit(X, X[:, 0], X_val=X, y_val=X[:, 0]).history_
    out, err = capfd.readouterr()
    assert out == ""
    best = int(np.argmin(losses["validation_loss"]))
    expected = (
        f"AGBM (paper)  20/20  trees {losses['trees'][-1]}  train loss {losses['train_loss'][-1]:.5g}  "
        f"validation loss {losses['validation_loss'][-1]:.5g}  best {losses['validation_loss'][best]:.5g} at {best}  "
    )
    assert re.fullmatch(re.escape(expected) + r"\d+\.\d s\n", err)


def test_no_output_without_verbose(capfd):
    X = np.random.default_rng(0).normal(size=(200, 2))
    AGBMRegressor(max_iter=20, verbose=0).fit(X, X[:, 0])
    assert capfd.readouterr() == ("", "")
    stream = Terminal()
    with progress("gbm", 10, 0, stream) as nothing:
        assert nothing is None
    assert stream.getvalue() == ""


@pytest.mark.parametrize("held_out", [False, True])
def test_best_iteration_is_that_of_the_validation_loss(held_out):
    stream = io.StringIO()
    with progress("gbm", 5, 1, stream) as lines:
        for i, loss in enumerate(HELD_OUT):
            lines(record(i, loss if held_out else float("nan")))
    said = "validation loss 0.4  best 0.25 at 2" if held_out else "train loss 0.16667  best 0.16667 at 5"
    assert f"  {said}  " in stream.getvalue()
    assert ("validation" in stream.getvalue()) == held_out


def test_non_finite_losses_are_never_the_best():
    stream = io.StringIO()
    with progress("gbm", 5, 1, stream) as lines:
        for i, loss in enumerate([2.0, 1.0, float("inf")]):
            lines(record(i)._replace(train_loss=loss))
    assert "train loss inf  best 1 at 1" in stream.getvalue()


def test_lines_become_rarer(clock):
    stream = io.StringIO()
    with progress("gbm", 1000, 1, stream) as lines:
        for i in range(1001):
            clock[0] = 100.0 + 0.1 * i
            lines(record(i))
    lines = stream.getvalue().splitlines()
    at = [int(line.split()[1].split("/")[0].replace(",", "")) for line in lines]
    assert at[:10] == list(range(20, 220, 20))
    assert all(now - before == pytest.approx(max(20, 0.1 * before), abs=2) for before, now in pairwise(at[:-1]))
    assert at[-1] == 1000
    assert lines[0].endswith("  2.0 s")  # one line alone has no pace
    assert lines[9].endswith("  20 s, at most 80 s left")
    assert lines[-1].endswith("  1:40")  # nothing is left of what is over


def test_remaining_time_follows_the_recent_pace(clock):
    stream = io.StringIO()
    with counting("reading", stream) as update:
        for done in range(1000, 1210):  # a thousand were there before
            clock[0] += 1.0
            update(done, 2000, f"part {done}")
    lines = stream.getvalue().splitlines()
    assert lines[0] == "reading  1,001/2,000  part 1001  2.0 s"
    assert lines[5] == "reading  1,011/2,000  part 1011  12 s, 16:29 left"
    assert lines[-1] == "reading  1,209/2,000  part 1209  3:30"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (9.44, "9.4 s"), (99.4, "99 s"), (100, "1:40"), (3599.4, "59:59"), (3600, "1:00:00")],
)
def test_durations(seconds, text):
    assert module._duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (30382.6, 4, "30,383"),
        (-1234.567, 6, "-1,234.57"),
        (1200.0, 6, "1,200"),
        (20000.0, 4, "20,000"),
        (999.4, 3, "999"),
        (0.0312345, 4, "0.03123"),
        (3.2e-7, 3, "3.2e-07"),
        (2e15, 3, "2e+15"),
        (float("nan"), 4, "nan"),
        (float("-inf"), 4, "-inf"),
        (0.0, 4, "0"),
    ],
)
def test_number_format(value, digits, text):
    assert module.readable(value, digits) == text


def test_half_squared_error_is_shown_as_rmse():
    stream = io.StringIO()
    with progress("gbm", 5, 1, stream, HalfSquaredError()) as lines:
        for i, loss in enumerate([8e8, 5e8, 6e8, 5.1e8, 7e8, 8e8]):
            lines(record(i, loss)._replace(train_loss=2.0))
    assert "train RMSE 2  validation RMSE 40,000  best 31,623 at 1  " in stream.getvalue()


def test_the_loss_is_that_of_the_fit(capfd):
    """Half the squared error as its root, other losses as they are."""
    X = np.arange(40.0)[:, np.newaxis]
    options = {"max_iter": 3, "n_members": 1, "early_stopping": False, "verbose": 1}
    losses = AGBMRegressor(loss="absolute_error", **options).fit(X, X[:, 0]).history_["train_loss"]
    assert f"train loss {module.readable(losses[-1], 5)}  " in capfd.readouterr().err


def test_the_last_step_may_take_longer_than_expected(clock, monkeypatch):
    """No "0.0 s left" while it does."""
    monkeypatch.setattr(module._Lines, "seconds_between", 0.0)
    monkeypatch.setattr(module._Lines, "share_between", 0.0)
    stream = io.StringIO()
    with counting("compare", stream) as update:
        for done, seconds in [(0, 0), (1, 2), (2, 2), (2, 1.5), (2, 0.45), (2, 8)]:
            clock[0] += seconds
            update(done, 3)
        update(3, 3)
    ends = [line.split("  ")[-1] for line in stream.getvalue().splitlines()]
    assert ends[1:] == ["2.0 s, 4.0 s left", "4.0 s, 2.0 s left", "5.5 s, 0.5 s left", "6.0 s", "14 s", "14 s"]


def test_steps_after_one_that_takes_longer_are_still_to_come(clock, monkeypatch):
    monkeypatch.setattr(module._Lines, "seconds_between", 0.0)
    stream = io.StringIO()
    with counting("compare", stream) as update:
        for done, seconds in [(0, 0), (1, 2), (1, 20)]:
            clock[0] += seconds
            update(done, 4)
    assert stream.getvalue().splitlines()[-1] == "compare  1/4  22 s, 4.0 s left"


def ended(error, monkeypatch, total=10):
    """The end of a bar after three of ten iterations, with its colours."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm-256color")
    stream = Terminal()
    with pytest.raises(error) if error else nullcontext(), progress("gbm", total, 1, stream) as bar:
        for i in range(4):
            bar(record(i))
        if error:
            raise error
    return stream.getvalue().split("gbm ")[-1]


def test_bar_after_early_stopping(monkeypatch):
    complete = ended(None, monkeypatch, total=3)
    early, failed = ended(None, monkeypatch), ended(KeyboardInterrupt, monkeypatch)
    colour = re.match(r"(\x1b\[[\d;]*m)━+\x1b", complete)[1]
    assert re.match(re.escape(colour) + r"━+\x1b", early)
    assert "stopped early" in early
    assert "stopped early" not in complete + failed
    assert not failed.startswith(colour)


def test_counted_items_never_stop_early():
    """An interrupt may end it, which is reported elsewhere."""
    stream = io.StringIO()
    with counting("compare", stream) as update:
        update(1, 3)
    assert "stopped early" not in stream.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("columns", [20, 40, 60, 80, 120])
def test_bar_fits_any_width(columns, monkeypatch, clock):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(module._Bar, "refresh_per_second", 1e-3)  # the test draws
    made = []
    monkeypatch.setattr(module, "_Bar", lambda *given, bar=module._Bar: made.append(bar(*given)) or made[-1])
    stream = Terminal()
    with progress("fading", 1000, 1, stream) as bar:
        for i in range(351):
            clock[0] += 0.3
            bar(record(i, abs(i - 320) + 0.25))
            made[-1]._live.refresh()
    lines = lines_of(stream.getvalue())
    assert max(map(len, lines)) <= columns  # nothing wraps
    head, words = [line for line in lines if line][-2:]
    assert words.endswith("best 0.25 at 320")
    assert ("trees 700  train loss 0.002849  validation loss 30.25  best" in words) == (columns >= 80)
    assert ("validation loss 30.25" in words) == (columns >= 40)
    assert head.startswith("fading")
    if columns >= 40:
        assert "350/1,000 1:45, stopped early" in head
        assert any("349/1,000 1:45, at most 3:15 left" in line for line in lines) == (columns >= 60)
        counts = {line.index("/1,000") for line in lines if line.startswith("fading")}
        assert len(counts) == 1  # nothing moves to and fro
    assert ("━" in head) == (columns >= 60)


def test_bar_is_drawn_by_its_own_thread(monkeypatch):
    """That thread is rich's, which wakes a few times a second; the loop draws only the first and the last state."""
    draw, drawn_by = module._Bar._draw, []
    monkeypatch.setattr(module._Bar, "_draw", lambda bar: drawn_by.append(threading.current_thread()) or draw(bar))

    def drawn_here(n_records):
        drawn_by.clear()
        with progress("agbm", n_records, 1, Terminal()) as bar:
            for i in range(n_records):
                bar(record(i, 0.25))
        return drawn_by.count(threading.current_thread())

    assert 1 <= drawn_here(5000) == drawn_here(1)


def test_counting_in_a_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    stream = Terminal()
    with counting("reading files", stream) as update:
        update(1, 3, "a.csv")
        update(3, 3)
    lines = [line for line in lines_of(stream.getvalue()) if line]
    assert re.search(r"reading files ━* ?3/3 0\.\d s", lines[-1])  # no second line, since there is nothing to say
    assert "at most" not in stream.getvalue()


def test_failed_start_shows_nothing():
    stream = Terminal()
    with pytest.raises(LookupError), progress("agbm", 10, 1, stream):
        raise LookupError
    assert stream.getvalue() == ""


def test_lines_on_a_terminal_without_rich(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich", None)
    stream = Terminal()
    with progress("gbm", 10, 1, stream) as lines:
        lines(record(10))
    assert stream.getvalue().startswith("gbm  10/10  trees 20  train loss 0.0909")


INTERRUPTED = """
import os, sys, time
terminal = os.open(sys.argv[1], os.O_RDWR)  # the first one that a session opens is its own: Ctrl-C works
for descriptor in (0, 2):
    os.dup2(terminal, descriptor)
import numpy as np
from agbm import AGBMRegressor

def tell(record):
    sys.stdout.write(f"iteration {record.iteration}\\n")  # in one piece, also if interrupted
    time.sleep(0.002)

X = np.arange(40.0)[:, np.newaxis]
model = AGBMRegressor(max_iter=100_000, verbose=1, callbacks=[tell])
try:
    model.fit(X, X[:, 0])
except KeyboardInterrupt:
    print("interrupted", hasattr(model, "history_"))
"""


@pytest.mark.slow
def test_ctrl_c_restores_the_terminal():
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80", "TERM": "xterm"}
    command = [sys.executable, "-c", INTERRUPTED, os.ttyname(theirs)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, start_new_session=True, env=environment, text=True
    ) as process:
        seen = b""
        while b"/100,000" not in seen:
            assert process.poll() is None
            if select.select([ours], [], [], 1.0)[0]:
                seen += os.read(ours, 1000)
        os.write(ours, b"\x03")
        printed = process.communicate(timeout=30)[0].splitlines()
        os.set_blocking(ours, False)
        try:
            while more := os.read(ours, 10_000):
                seen += more
        except BlockingIOError:
            pass
    os.close(ours)
    os.close(theirs)
    assert process.returncode == 0
    assert printed[-1] == "interrupted False"
    # What a callback prints to a pipe goes there, and not to the terminal.
    assert printed[:-1] == [f"iteration {i}" for i in range(len(printed) - 1)]
    assert b"iteration" not in seen
    text = seen.decode()
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1  # the cursor was hidden, and is back
    assert text.endswith("\r\n\x1b[?25h")
    last = [line for line in lines_of(text) if line]
    assert re.fullmatch(r"agbm [━╸╺]+ +[\d,]+/100,000 \d+\.\d s", last[-2])


NOTEBOOK = """
import numpy as np
from agbm import AGBMRegressor

X = np.random.default_rng(0).normal(size=(200, 2))
model = AGBMRegressor(loss="absolute_error", max_iter=60, n_members=1, verbose=1, early_stopping=False)
model.fit(X, X[:, 0], X_val=X, y_val=X[:, 0]);
"""


@pytest.mark.slow
def test_one_output_of_a_notebook():
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(NOTEBOOK)])
    nbclient.NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
    (output,) = notebook.cells[0].outputs
    assert output.output_type == "display_data"
    assert set(output.data) == {"text/plain", "text/html"}
    plain, html = output.data["text/plain"], output.data["text/html"]
    words = r"agbm  60/60  trees 60  train loss \S+  validation loss \S+  best \S+ at \d+  \d+\.\d s"
    assert re.fullmatch(words, plain)
    assert '<progress value="60" max="60"' in html
    assert [word for word in plain.split("  ")[1:] if f">{word}<" not in html] == []


@pytest.fixture
def notebook(monkeypatch):
    """What a kernel would be sent, with the times, in a list."""
    sent = []

    class Handle:
        def update(self, bundle, raw):
            sent.append(("update", bundle))

    def display(bundle, raw, display_id):
        sent.append(("display", bundle))
        return Handle()

    package, shown = ModuleType("IPython"), ModuleType("IPython.display")
    package.get_ipython = lambda: type("Shell", (), {"kernel": object()})()
    shown.display = display
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    return sent


def test_notebook_updates_are_throttled(notebook, clock):
    with progress("fading", 1000, 1) as update:
        for i in range(1001):
            clock[0] += 0.01
            update(record(i))
    assert [kind for kind, _ in notebook] == ["display"] + ["update"] * 41
    assert "text/plain" in notebook[0][1]
    assert '<progress value="1000" max="1000"' in notebook[-1][1]["text/html"]
    assert ">at most" not in notebook[-1][1]["text/html"]
    assert ", at most 5.0 s left" in notebook[20][1]["text/html"]


def test_text_is_escaped(notebook):
    with counting("<a> & b") as update:
        update(1, 2, "x < y")
    html = notebook[-1][1]["text/html"]
    assert "&lt;a&gt; &amp; b" in html
    assert "x &lt; y" in html
    assert notebook[-1][1]["text/plain"].startswith("<a> & b  1/2  x < y")


def test_ipython_in_a_terminal_shows_a_bar(notebook, monkeypatch, capfd):
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: object())
    with counting("parts") as update:
        update(1, 2)
    assert notebook == []
    assert capfd.readouterr().err.startswith("parts  1/2")


def test_ipython_is_not_imported(monkeypatch, capfd):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    with counting("parts") as update:
        update(1, 1)
    assert "IPython" not in sys.modules
    assert capfd.readouterr().err.startswith("parts  1/1")
