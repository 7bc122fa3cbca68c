"""The files around the code agree with each other: versions, workflows, hooks, links."""

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

import agbm
from documents import DOCUMENTS

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = SETTINGS["project"]
PAGES = [*DOCUMENTS, "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def load(path):
    return yaml.safe_load((ROOT / path).read_text())


def makefile():
    return (ROOT / "Makefile").read_text()


def steps(workflow):
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def test_one_version():
    assert version("agbm") == PROJECT["version"]
    assert load("CITATION.cff")["version"] == PROJECT["version"]
    assert PROJECT["version"] in (ROOT / "CHANGELOG.md").read_text()


def test_every_version_of_python_that_is_named_is_tested():
    prefix = "Programming Language :: Python :: 3."
    named = [f"3.{name.removeprefix(prefix)}" for name in PROJECT["classifiers"] if name.startswith(prefix)]
    tested = load(".github/workflows/ci.yml")["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert named == tested
    assert PROJECT["requires-python"] == f">={named[0]}"


def test_wheels_are_for_all_versions_of_python():
    """One for each version below the stable ABI, and one with it."""
    lowest, stable = "cp311", SETTINGS["tool"]["scikit-build"]["wheel"]["py-api"]
    assert PROJECT["requires-python"] == f">={lowest[2]}.{lowest[3:]}"
    assert int(stable[3:]) == int(lowest[3:]) + 1, "a version between them would have no wheel"
    assert SETTINGS["tool"]["cibuildwheel"]["build"] == [f"{lowest}-*", f"{stable}-*"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows(path):
    workflow = yaml.safe_load(path.read_text())
    targets = set(re.findall(r"^([a-z-]+):", makefile(), re.MULTILINE))
    for step in steps(workflow):
        assert ("run" in step) != ("uses" in step)
        command = step.get("run", "").split()
        if command[:1] == ["make"]:
            assert set(command[1:]) <= targets
    for job in workflow["jobs"].values():
        assert "timeout-minutes" in job or "environment" in job
        assert set(job.get("needs", [])) <= set(workflow["jobs"])


def test_actions_are_pinned_to_commits():
    """A tag can be moved to other code. The same action is the same commit everywhere."""
    used = {step["uses"] for path in WORKFLOWS for step in steps(yaml.safe_load(path.read_text())) if "uses" in step}
    assert used
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", name) for name in used), used
    assert len({name.split("@")[0] for name in used}) == len(used), used


def test_steps_of_the_rehearsal_that_are_named_exist():
    """In the Makefile, which alone names them."""
    program = (ROOT / "release" / "check.py").read_text()
    known = re.findall(r'^    "([a-z-]+)": ', program.split("\nSTEPS")[1].split("\n}")[0], re.MULTILINE)
    named = {name for line in re.findall(r"\$\(RELEASE_CHECK\)(.*)", makefile()) for name in line.split()}
    assert {"source", "wheels", "emulate", "free-threaded"} <= named <= set(known)


def test_tags_alone_publish_and_nothing_else_may():
    jobs = load(".github/workflows/release.yml")["jobs"]
    assert jobs["publish"]["if"] == "startsWith(github.ref, 'refs/tags/v')"
    assert set(jobs["publish"]["needs"]) == set(jobs) - {"publish"}
    assert [name for name, job in jobs.items() if "id-token" in job.get("permissions", {})] == ["publish"]


def test_hooks_are_the_commands_of_make_lint():
    (repository,) = load(".pre-commit-config.yaml")["repos"]
    hooks = {hook["entry"].split(" -")[0].removeprefix(".venv/bin/") for hook in repository["hooks"]}
    recipe = makefile().split("\nlint:")[1].split("\n\n")[0]
    assert hooks == {line.split(" -")[0].rstrip(" .") for line in re.findall(r"\$\(BIN\)/(.+)", recipe)}


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"])
def test_links_lead_somewhere(name):
    text = (ROOT / name).read_text()
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if not link.startswith("http")]
    assert links
    for link in links:
        file, _, part = link.partition("#")
        target = ROOT / (file or name)
        assert target.exists(), link
        if part:
            titles = re.findall(r"^#+ (.+)$", target.read_text(), re.MULTILINE)
            assert part in [re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles], link


def code_spans(name):
    """The pieces of code within the text of a page."""
    return [re.sub(r"\s+", " ", span) for span in re.findall(r"`([^`\n]+\n?[^`\n]*)`", (ROOT / name).read_text())]


def has(found, names):
    for name in names:
        found = getattr(found, name, None)
    return found is not None


def test_names_in_pages_exist():
    """Make targets, files and public names of agbm; a name of which only the last part is missing is a file."""
    targets = {*re.findall(r"^([a-z-]+):", makefile(), re.MULTILINE), "bench-"}
    missing, n_seen = [], 0
    for page in PAGES:
        for span in code_spans(page):
            makes = re.findall(r"\bmake ([a-z-]+)", span)
            files = re.findall(
                r"(?<![\w/])(?:benchmarks|docs|examples|native|release|src|tests|_[a-z]+)/[\w./-]*\w", span
            )
            names = re.findall(r"(?<![\w./])agbm(?:\.\w+)+", span)
            missing += [(page, name) for name in makes if name not in targets]
            missing += [
                (page, name) for name in files if not any((ROOT / base / name).exists() for base in ("", "src/agbm"))
            ]
            missing += [(page, name) for name in names if not has(agbm, name.split(".")[1:])]
            n_seen += len(makes) + len(files) + len(names)
    assert n_seen > 200
    assert missing == []


def test_targets_are_described():
    described = (ROOT / "CONTRIBUTING.md").read_text()
    targets = re.search(r"^\.PHONY:((?:.+\\\n)*.+)", makefile(), re.MULTILINE)[1].replace("\\", "").split()
    unknown = [name for name in targets if not re.search(rf"`(make )?{name}`", described)]
    assert [name for name in unknown if not name.startswith(("bench-", "sanitize-"))] == []


def test_extras_are_on_the_page_that_installs():
    of_developers = {"bench", "docs", "test"}
    table = re.search(r"^\| extra \|.+?(?=\n\n)", (ROOT / "docs" / "start.md").read_text(), re.DOTALL | re.MULTILINE)[0]
    named = {name for line in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", line.split("|")[1])}
    assert named == set(PROJECT["optional-dependencies"]) - of_developers
