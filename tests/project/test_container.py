"""The recipe of the service in examples/container. tests/helpers/container_recipe.py runs its commands."""

import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import recipe_text
from agbm import AGBMRegressor

ROOT = Path(__file__).parents[2]
RECIPE = recipe_text.instructions()


def test_copied_files_exist():
    *_, given = zip(*(pair for pair in RECIPE if pair[0] == "COPY"), strict=True)
    sources = [source for text in given if "--from=" not in text for source in text.split()[:-1]]
    assert len(sources) == 8
    assert all((ROOT / source).exists() for source in sources)


def test_service_does_not_run_as_root():
    last = [i for i, (instruction, _) in enumerate(RECIPE) if instruction == "FROM"][-1]
    (user,) = [text for instruction, text in RECIPE[last:] if instruction == "USER"]
    assert all(int(number) >= 10_000 for number in user.split(":"))


def test_all_versions_are_pinned():
    pins = (ROOT / "examples/container/constraints.txt").read_text().splitlines()
    names = {re.fullmatch(r"([\w-]+)==[\d.]+", line)[1] for line in pins if not line.startswith("#")}
    assert {"numpy", "scikit-learn", "scikit-build-core", "nanobind"} <= names, "which pyproject.toml names"


def test_start_health_check_and_stop(tmp_path):
    """The commands of the recipe, on another port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    model = AGBMRegressor(max_iter=2).fit([[float(i)] for i in range(50)], range(50))
    model.save(tmp_path / "model.agbm")
    places = {"/app/": f"{ROOT}/examples/", "/model/": f"{tmp_path}/", "8000": str(port), "0.0.0.0": "127.0.0.1"}

    def command(instruction):
        first, *words = recipe_text.words_of(RECIPE, instruction)
        assert first == "python"
        for name, place in places.items():
            words = [word.replace(name, place) for word in words]
        return [sys.executable, *words]

    def healthy():
        return subprocess.run(command("HEALTHCHECK"), stderr=subprocess.DEVNULL).returncode == 0

    assert not healthy()
    signals = recipe_text.signals_of_a_container
    service = subprocess.Popen(command("ENTRYPOINT"), stdout=subprocess.PIPE, text=True, preexec_fn=signals)
    try:
        assert service.stdout.readline().strip() == f"http://127.0.0.1:{port}"
        end = time.monotonic() + 30
        while not healthy():
            assert time.monotonic() < end
    finally:
        service.send_signal(getattr(signal, dict(RECIPE)["STOPSIGNAL"]))
        assert service.wait(30) == 0
        service.stdout.close()
