"""Consistency of the project's files: versions, workflows, hooks, links, lists of tests."""

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
PAGES = [*DOCUMENTS, "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "release/README.md"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def load(path):
    return yaml.safe_load((ROOT / path).read_text())


def makefile():
    return (ROOT / "Makefile").read_text()


def steps(workflow):
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def test_versions_agree():
    assert version("agbm") == PROJECT["version"]
    assert load("CITATION.cff")["version"] == PROJECT["version"]
    assert PROJECT["version"] in (ROOT / "CHANGELOG.md").read_text()


def test_every_supported_version_of_python_is_tested():
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


def test_named_release_steps_exist():
    """In the Makefile and on the page about releases."""
    program = (ROOT / "release" / "check.py").read_text()
    known = re.findall(r'^    "([a-z-]+)": ', program.split("\nSTEPS")[1].split("\n}")[0], re.MULTILINE)
    named = [line.replace("$(STEPS)", "") for line in re.findall(r"\$\(RELEASE_CHECK\)(.*)", makefile())]
    named += re.findall(r'STEPS="([^"]+)"', (ROOT / "release" / "README.md").read_text())
    assert {"source", "wheels", "emulate", "free-threaded"} <= {*" ".join(named).split()} <= set(known)


def test_only_tags_publish():
    jobs = load(".github/workflows/release.yml")["jobs"]
    assert jobs["publish"]["if"] == "startsWith(github.ref, 'refs/tags/v')"
    assert set(jobs["publish"]["needs"]) == set(jobs) - {"publish"}
    assert [name for name, job in jobs.items() if "id-token" in job.get("permissions", {})] == ["publish"]


def test_make_leaves_the_environment_of_the_readme_alone():
    (readmes,) = re.findall(r"^python3 -m venv (.+)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    (makes,) = re.findall(r"^VENV := (.+)$", makefile(), re.MULTILINE)
    assert makes != readmes
    assert not [line for line in makefile().splitlines() if readmes in line and not line.startswith("#")]


def test_hooks_are_the_commands_of_make_lint():
    (repository,) = load(".pre-commit-config.yaml")["repos"]
    hooks = {hook["entry"].split(" -")[0].removeprefix("build/venv/bin/") for hook in repository["hooks"]}
    recipe = makefile().split("\nlint:")[1].split("\n\n")[0]
    assert hooks == {line.split(" -")[0].rstrip(" .") for line in re.findall(r"\$\(BIN\)/(.+)", recipe)}


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"])
def test_links_resolve(name):
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
    targets = set(re.findall(r"^([a-z-]+):", makefile(), re.MULTILINE))
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
    assert n_seen > 100
    assert missing == []


def test_make_help_describes_all_targets():
    """Except those that are parts of other targets."""
    targets = re.search(r"^\.PHONY:((?:.+\\\n)*.+)", makefile(), re.MULTILINE)[1].replace("\\", "").split()
    described = re.findall(r"^([a-z-]+):.*## \w", makefile(), re.MULTILINE)
    assert {name for name in targets if not name.startswith("sanitize-")} == set(described)


def modules_named(page):
    return re.findall(r"python -m (benchmarks(?:\.\w+)+)", (ROOT / page).read_text())


@pytest.mark.parametrize("page", [*PAGES, "benchmarks/README.md"])
def test_named_benchmarks_exist(page):
    missing = [name for name in modules_named(page) if not (ROOT / f"{name.replace('.', '/')}.py").is_file()]
    assert missing == []


def test_every_benchmark_is_listed():
    scripts = [path for path in (ROOT / "benchmarks").rglob("*.py") if "__main__" in path.read_text()]
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in scripts}
    assert names == set(modules_named("benchmarks/README.md"))


def test_extras_are_documented():
    of_developers = {"bench", "docs", "test"}
    table = re.search(r"^\| extra \|.+?(?=\n\n)", (ROOT / "docs" / "start.md").read_text(), re.DOTALL | re.MULTILINE)[0]
    named = {name for line in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", line.split("|")[1])}
    assert named == set(PROJECT["optional-dependencies"]) - of_developers


def test_no_test_file_is_long():
    """Files of many subjects are split, so that the name of a file says what its tests are about."""
    lengths = {path.relative_to(ROOT): len(path.read_text().splitlines()) for path in (ROOT / "tests").rglob("*.py")}
    assert {str(path): length for path, length in lengths.items() if length > 800} == {}


def test_files_of_tests_that_the_makefile_names_exist():
    lists = re.findall(r"^\w+_TESTS := ((?:.*\\\n)*.*)", makefile(), re.MULTILINE)
    named = {name for line in lists for name in re.findall(r"\b(?:tests/)?((?:\w+/)+test_\w+)", line)}
    assert len(named) > 10
    assert {name for name in named if not (ROOT / "tests" / f"{name}.py").is_file()} == set()


def test_every_change_runs_the_checks_and_every_week_the_nightly_tests():
    jobs = load(".github/workflows/ci.yml")["jobs"]
    conditions = {name: job["if"] for name, job in jobs.items()}
    assert conditions.pop("nightly") == "github.event_name == 'schedule'"
    assert set(conditions.values()) == {"github.event_name != 'schedule'"}
