"""The start of a command: --help and --version without heavy imports, and immediate output."""

import io
import os
import re
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import pytest

from agbm._apps import cli
from agbm._apps.cli import command_options
from agbm._apps.cli.commands import export
from agbm._apps.cli.status import status
from agbm._fit.auto import ITERATIONS
from commands import SOLD, fails, mixed

# The package itself is a stub, whatever its own __init__.py imports.
LIGHT = """
import sys, types
package = types.ModuleType("agbm")
package.__path__ = [sys.argv[1]]
sys.modules["agbm"] = package
from agbm._apps.cli import main
for words in (["--version"], ["--help"], *([word, "--help"] for word in sys.argv[2:])):
    try:
        main(words)
    except SystemExit as ended:
        assert ended.code == 0
heavy = {"numpy", "sklearn", "scipy", "pandas", "pyarrow", "rich"} & set(sys.modules)
assert not heavy, heavy
"""


class Terminal(io.StringIO):
    def isatty(self):
        return True


def in_terminal(monkeypatch):
    """Called by tests and not a fixture, since pytest sets sys.stderr before every test."""
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    return sys.stderr


def test_help_and_version_import_nothing_heavy():
    words = [name for name in command_options.COMMANDS if name not in ("report", "paper")]
    package = str(Path(cli.__file__).parent.parent)
    done = subprocess.run([sys.executable, "-c", LIGHT, package, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.match(r"agbm \d", done.stdout)
    assert done.stdout.count("examples:") == len(words)
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.parametrize("command", command_options.COMMANDS)
def test_the_help_of_a_command_is_the_one_in_the_list(command):
    """The parser of one command and that of all commands have the same help."""
    lines = {wanted: cli.make_parser(wanted).format_help() for wanted in (command, "")}
    assert lines[command] == lines[""]


def test_numbers_and_names_that_a_parser_repeats():
    assert (
        f"(default: {ITERATIONS})"
        in cli.make_parser("compare")._subparsers._group_actions[0].choices["compare"].format_help()
    )
    assert list(command_options.EXPORT_FORMATS) == list(export.FORMATS)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["train", "t.csv", "--target", "y", "--out", "m"], "reading t.csv ..."),
        (["predict", "m.agbm", "-", "--out", "p.csv"], "reading standard input ..."),
        (["inspect", "m.agbm"], "reading m.agbm ..."),
        (["train", "t.csv", "--target", "y", "--out", "m", "--quiet"], ""),
        (["inspect", "m.agbm", "--json"], ""),
        (["completion", "bash"], ""),
    ],
    ids=str,
)
def test_status_is_shown_before_the_imports(words, text, monkeypatch):
    seen, terminal = [], in_terminal(monkeypatch)
    monkeypatch.setattr(
        command_options,
        "import_module",
        lambda *given: seen.append(terminal.getvalue()) or SimpleNamespace(run=lambda _: None),
    )
    assert cli.main(words) == 0
    assert seen == [text]
    assert terminal.getvalue() == (f"{text}\r\x1b[K" if text else "")


def test_status_line_fits_and_is_erased(monkeypatch):
    terminal = in_terminal(monkeypatch)
    with status(Namespace(data="a\x1b[2J" + 60 * "b", quiet=False, json=False)):
        shown = terminal.getvalue()
    assert shown.startswith(r"reading a\x1b[2Jbbb")
    assert len(shown) == 39


def test_no_status_without_a_terminal(monkeypatch, capsys):
    with status(Namespace(data="t.csv")):
        assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys, "stderr", None)
    with status(Namespace(data="t.csv")):
        pass


def test_an_error_is_on_a_line_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    terminal = in_terminal(monkeypatch)
    assert cli.main(["inspect", "none.agbm"]) == 1
    assert re.search(r"\x1b\[Kagbm: .*none.agbm", terminal.getvalue())


@pytest.mark.parametrize("chosen", [None, "active"])
def test_idle_threads_of_openmp_sleep_in_compare(chosen, monkeypatch):
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    if chosen is not None:
        monkeypatch.setenv("OMP_WAIT_POLICY", chosen)
    seen = []

    def module(*_):
        seen.append(os.environ.get("OMP_WAIT_POLICY"))
        return SimpleNamespace(run=lambda _: None)

    monkeypatch.setattr(command_options, "import_module", module)
    cli.main(["train", "t.csv", "--target", "y", "--out", "m"])
    cli.main(["compare", "t.csv", "--target", "y"])
    assert seen == [chosen, chosen or "passive"]
    monkeypatch.delenv("OMP_WAIT_POLICY")


class TestMessagesNameOptions:
    @pytest.fixture
    def here(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        mixed(60).to_csv("mixed.csv", index=False)

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["compare", "--max-iter", "0"], "--max-iter must be at least 1; got 0"),
            (["compare", "--set", "max_iter=5"], "--set max_iter=5: use --max-iter instead"),
            (["compare", "--set", "method=gbm"], "--set method=gbm: use --methods instead"),
            (["compare", "--set", "n_iter_no_change=5"], "--set n_iter_no_change=5: all contenders have the same"),
            (["tune", "--out", "m", "--set", "random_state=5"], "--set random_state=5: use --seed instead"),
            (["tune", "--out", "m", "--set", "method=gbm"], "--set method=gbm: the search sets this parameter itself"),
            (["tune", "--out", "m", "--set", "max_iter=-1"], "--set max_iter=-1: The 'max_iter' parameter of"),
            (["train", "--out", "m", "--set", "max_iter=-1"], "--set max_iter=-1: The 'max_iter' parameter of"),
            (["train", "--out", "m", "--weight", "size"], r"--weight size: weights must be numbers .*, but \d+ of 60"),
        ],
        ids=str,
    )  # fmt: skip
    def test_mistakes(self, words, message, here, capsys):
        command, *more = words
        assert re.search(message, fails(capsys, command, "mixed.csv", "--target", "price", "--quiet", *more))

    def test_libraries_that_are_not_installed(self, here, capsys, monkeypatch):
        monkeypatch.setattr("agbm._apps.cli.commands.compare.installed_peers", lambda: ["HistGradientBoosting"])
        line = fails(capsys, "compare", "mixed.csv", "--target", "price", "--peers", "LightGBM", "CatBoost")
        assert line == "agbm: --peers LightGBM CatBoost: not installed; run: pip install lightgbm catboost"
        assert cli.main(["compare", "mixed.csv", "--target", "price", "--methods", "gbm", "--max-iter", "2"]) == 0
        said = re.sub(r"\n {3,}", " ", capsys.readouterr().out)
        assert re.search(r"not installed +LightGBM, XGBoost, CatBoost: pip install lightgbm xgboost catboost ", said)


def test_interrupted_while_importing(monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(command_options, "import_module", interrupted)
    assert cli.main(SOLD) == 130
    assert capsys.readouterr().err == "interrupted\n"
