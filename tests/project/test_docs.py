"""Documents that run: every Python block and every command of the README and of the pages in docs/.

The blocks of a document run in their order, in one namespace and in an empty folder, with warnings as errors. What
readers have and a test has not (files, say) is made by a comment in the document. A block of text behind a block that
prints is what it, or its last command, prints, up to seconds and sizes.

    <!-- setup
    Python code, run where it stands
    -->
"""

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

import installed_docs
from agbm._apps import cli
from agbm._migration import LIBRARIES
from documents import BLOCK, DOCUMENTS, ROOT, blocks, commands

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its own, about what other libraries will no longer have
    import shap  # noqa: F401 (for documents)

# A source distribution has tests, but not the documentation.
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not (ROOT / "docs").is_dir(), reason="there is no folder docs")]


PROGRAMS = {"c": ["gcc", "-Wall", "-Werror", "program.c", "-o", "program.run"], "js": ["node", "program.mjs"]}
"""For other languages, what compiles or runs a program."""


class Reader:
    """Someone who follows a document from its beginning to its end."""

    def __init__(self, document, capsys):
        self._document = document
        self._capsys = capsys
        self._names = {"__name__": "__main__"}
        self._printed = ""

    def follow(self, language, text, line):
        if language in ("python", "setup"):
            # Line numbers of errors are those of the document.
            exec(compile("\n" * line + text, self._document, "exec"), self._names)
            self._printed = self._capsys.readouterr().out
        elif language == "sh":
            for words in commands(text):
                self._run(words)
                self._printed = self._capsys.readouterr().out
        elif language in PROGRAMS:
            self._printed = output_of(language, text)
        elif language == "text" and self._printed:
            assert without_sizes(text) == without_sizes(self._printed), f"{self._document}:{line}"
            self._printed = ""

    def _run(self, words):
        program, *arguments = words
        checks = {
            "agbm": self._agbm, "docker": docker, "make": make, "pip": pip, "python": python, "python3": venv,
            "source": activate,
        }  # fmt: skip
        check = checks.get(program)
        assert check is not None, f"{shlex.join(words)}: no test knows what {program} does"
        check(arguments)

    def _agbm(self, arguments):
        if arguments[0] == "paper":  # takes minutes: only its arguments are read
            cli.make_parser().parse_args(arguments)
        else:
            assert cli.main(arguments) == 0, f"{shlex.join(arguments)}: {self._capsys.readouterr().err}"


def output_of(language, text):
    """What a program prints; nothing where there is no compiler or no node."""
    command = PROGRAMS[language]
    if shutil.which(command[0]) is None:
        return ""
    Path(f"program.{'c' if language == 'c' else 'mjs'}").write_text(text)
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    if language == "c":
        printed = subprocess.run(["./program.run"], check=True, capture_output=True, text=True).stdout
    return printed


def without_sizes(text):
    """Seconds and kilobytes differ a little from run to run."""
    return re.sub(r"[\d.]+ (s|B|kB|MB)\b", r"? \1", text.strip())


def make(arguments):
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {word for word in arguments if "=" not in word} <= targets


def pip(arguments):
    assert arguments[0] == "install"
    known = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    for extras in re.findall(r"\[(.*?)\]", " ".join(arguments)):
        assert set(extras.split(",")) <= known


def python(arguments):
    assert (ROOT / arguments[0]).is_file()


def docker(arguments):
    """The commands that the recipe itself names; its parts are tested by test_container.py."""
    recipe = (ROOT / "examples/container/Containerfile").read_text()
    said = re.findall(r"^# +(docker .*)", re.sub(r"\\\n# +", "", recipe), re.MULTILINE)
    known = [shlex.split(line.split("  (")[0]) for line in said]
    assert [word.replace("iris.agbm", "model.agbm") for word in ("docker", *arguments)] in known


def venv(arguments):
    assert arguments == ["-m", "venv", ".venv"]


def activate(arguments):
    assert arguments == [".venv/bin/activate"]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_blocks_run(document, tmp_path, monkeypatch, capsys):
    plt.switch_backend("Agg")
    monkeypatch.setattr(plt, "show", lambda *given, **options: None)
    monkeypatch.setenv("COLUMNS", "110")  # of a terminal
    monkeypatch.chdir(tmp_path)
    reader = Reader(document, capsys)
    try:
        for language, text, line in blocks(document):
            reader.follow(language, text, line)
    finally:
        plt.close("all")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_block_says_what_it_is(document):
    """Python, C, JavaScript and commands are run. What is none of these is text; Sphinx checks its own directives."""
    for language, _, line in blocks(document):
        assert language in ("python", "sh", "text", "text layers", "setup", *PROGRAMS) or language.startswith("{"), (
            f"{document}:{line}: {language!r}"
        )


def test_what_a_page_installs_and_then_runs():
    """For make test-install: a later line adds to what is there, and blocks belong to the line before them."""
    first, second = installed_docs.parts("docs/start.md")
    assert (first[0], second[0]) == ((".",), (".", ".[cli]"))
    assert {kind for kind, _ in first[1]} == {"python"}
    assert [what[0] for _, what in second[1]] == ["train", "predict", "inspect"]
    ((words, steps),) = installed_docs.parts("docs/explain.md")
    assert words == (".[explain]",)
    assert [kind for kind, _ in steps] == ["python"] * 5  # also what stands before the line
    assert installed_docs.parts("docs/design.md") == []


def test_every_fence_is_seen():
    """The pattern of blocks above misses none."""
    for document in DOCUMENTS:
        fences = re.findall(r"^ *```", (ROOT / document).read_text(), re.MULTILINE)
        seen = sum(text is not None for text in (m["text"] for m in BLOCK.finditer((ROOT / document).read_text())))
        assert len(fences) == 2 * seen, document


def test_files_that_the_readme_links_to_exist():
    """Those of the pages are checked by Sphinx."""
    links = re.findall(r"\]\((?!\w+:)([^)#]+)", (ROOT / "README.md").read_text())
    assert len(links) > 10
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_names_of_other_libraries_are_those_that_are_translated():
    """docs/coming-from.md: a table of parameters and one of objectives."""
    lines = (ROOT / "docs" / "coming-from.md").read_text().splitlines()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    heads, n_names = [], 0
    for first, *cells in table:
        if first in ("agbm parameter", "agbm `loss`"):
            heads = [LIBRARIES.get(head.lower(), LIBRARIES["sklearn"]) for head in cells]
        elif first.startswith(("`", '"')) or first == "":
            for library, cell in zip(heads, cells, strict=False):
                known = {name for setting in library.settings for name in setting.theirs.split()}
                known |= {*library.ignored.split(), *library.instead, *library.objectives}
                names = {re.split(r"=|:alpha|:delta|:variance", name)[0] for name in re.findall(r"`([^`]+)`", cell)}
                assert names <= known, (library.name, names - known)
                n_names += len(names)
    assert n_names > 80


def test_site_builds(tmp_path):
    """Links, anchors, directives and docstrings: any warning is an error. `make docs` does the same."""
    command = ["-m", "sphinx", "-q", "-W", "--keep-going", "-n", "-d", tmp_path / "doctrees", "docs", tmp_path / "site"]
    done = subprocess.run([sys.executable, *map(str, command)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site" / "algorithms.html").read_text()
    assert "<math " in page
    for page in (tmp_path / "site").rglob("*.html"):
        fetched = re.findall(r'(?:src|srcset)="(https?://[^"]*)"|<link[^>]*href="(https?://[^"]*)"', page.read_text())
        assert not fetched, f"{page} needs the network"
