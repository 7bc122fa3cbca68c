"""The files around the code agree with each other: versions, workflows, hooks, links."""

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = SETTINGS["project"]
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


def test_make_targets_that_are_named_exist():
    targets = set(re.findall(r"^([a-z-]+):", makefile(), re.MULTILINE))
    for name in ("README.md", "CONTRIBUTING.md"):
        named = set(re.findall(r"`make ([a-z-]+)", (ROOT / name).read_text()))
        assert named
        assert named <= targets, name
