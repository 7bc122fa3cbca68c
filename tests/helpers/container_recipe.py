"""Run the recipe of the service without a container: its commands in empty environments, and the service as its user.

python tests/helpers/container_recipe.py /usr/bin/python3

Each stage of examples/container/Containerfile becomes a folder with a virtual environment of the given Python, instead
of that of the image. Absolute paths of the recipe are below this folder. What installs packages of Debian is skipped.
If root runs this, the service has the numbers of the recipe's user, and otherwise those of the current user.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from sklearn.datasets import load_iris

import recipe_text
from agbm import AGBMClassifier

ROOT = Path(__file__).parents[2]
PORT = 8000
SECONDS_TO_START = 60


class Stage:
    """A folder that stands for the file system of an image."""

    def __init__(self, folder, python):
        self.folder = folder
        self.where = "/"
        self.variables = {}
        self.user = None
        folder.mkdir(mode=0o755)
        subprocess.run([python, "-m", "venv", folder / "venv"], check=True)

    def inside(self, path):
        """A path of the recipe."""
        return self.folder / os.path.join(self.where, path).lstrip("/")

    def translated(self, text):
        """A text with the absolute paths of the recipe below the folder."""
        return re.sub(r"(?<![\w/:.])/(build|wheels|app|model)\b", rf"{self.folder}/\1", text)

    def environment(self):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        path = f"{self.folder / 'venv/bin'}:{os.environ['PATH']}"
        return kept | {"PATH": path, **{name: self.translated(of) for name, of in self.variables.items()}}

    def run(self, command):
        if command.startswith("apt-get"):
            print("skipped:", command)
            return
        print("run:", command, flush=True)
        subprocess.run(["sh", "-c", self.translated(command)], check=True, cwd=self.inside("."), env=self.environment())

    def copy(self, sources, target):
        for source in sources:
            to = self.inside(target)
            to = to / source.name if target.endswith("/") else to
            to.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, to, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
            else:
                shutil.copy(source, to)

    def start(self, words, **more):
        """A process of the user of the recipe, if this process may start one."""
        if self.user is not None and os.geteuid() == 0:
            more |= {"user": self.user[0], "group": self.user[1], "extra_groups": []}
        translated = [self.translated(word) for word in words]
        translated[0] = str(self.folder / "venv/bin" / translated[0])
        where = {"cwd": self.inside("."), "env": self.environment()}
        return subprocess.Popen(translated, preexec_fn=recipe_text.signals_of_a_container, **where, **more)


def built(recipe, folder, python):
    """The last stage, after all instructions."""
    stages = {}
    for instruction, text in recipe:
        if instruction == "FROM":
            name = text.split(" AS ")[-1]
            stage = stages[name] = Stage(folder / str(len(stages)), python)
        elif instruction == "WORKDIR":
            stage.where = text
            stage.inside(".").mkdir(parents=True)
        elif instruction == "ENV":
            stage.variables.update(re.findall(r"(\w+)=(\S+)", text))
        elif instruction == "COPY":
            *sources, target = text.split()
            origin = stages[sources.pop(0).removeprefix("--from=")] if sources[0].startswith("--from=") else None
            stage.copy([ROOT / of if origin is None else origin.inside(of) for of in sources], target)
        elif instruction == "RUN":
            stage.run(text)
        elif instruction == "USER":
            stage.user = tuple(map(int, text.split(":")))
    return stage


def check_pins(stage):
    """Everything that is installed besides agbm has the version of constraints.txt."""
    command = [stage.folder / "venv/bin/python", "-m", "pip", "list", "--format=json"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    installed = {f"{one['name'].lower()}=={one['version']}" for one in found}
    pinned = set((ROOT / "examples/container/constraints.txt").read_text().splitlines())
    free = [one for one in installed - pinned if not one.startswith(("agbm==", "pip==", "setuptools=="))]
    assert not free, f"not in constraints.txt: {free}"


def healthy(stage, words):
    """Whether the check of the recipe says so."""
    return stage.start(words, stderr=subprocess.DEVNULL).wait() == 0


def main():
    python = shutil.which(sys.argv[1])
    recipe = recipe_text.instructions()
    entry, check = recipe_text.words_of(recipe, "ENTRYPOINT"), recipe_text.words_of(recipe, "HEALTHCHECK")
    X, y = load_iris(return_X_y=True)
    model = AGBMClassifier(max_iter=5).fit(X, y)
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        stage = built(recipe, Path(folder), python)
        check_pins(stage)
        file = stage.inside("/model/model.agbm")
        file.parent.mkdir()
        model.save(file)
        os.chmod(file, 0o444)
        assert not healthy(stage, check), f"something else answers on port {PORT}"
        service = stage.start(entry, stdout=subprocess.PIPE, text=True)
        try:
            end = time.monotonic() + SECONDS_TO_START
            while not healthy(stage, check):
                assert service.poll() is None, "the service has ended"
                assert time.monotonic() < end, "the service does not answer"
            uid = Path(f"/proc/{service.pid}").stat().st_uid
            body = json.dumps({"rows": X.tolist()}).encode()
            request = urllib.request.Request(f"http://127.0.0.1:{PORT}/predict", body)
            with urllib.request.urlopen(request) as response:
                found = json.load(response)["predictions"]
            assert [list(row.values()) for row in found] == model.predict_proba(X).tolist()
        finally:
            service.send_signal(getattr(signal, dict(recipe)["STOPSIGNAL"]))
            assert service.wait(10) == 0
    print(f"{len(X)} predictions of a service of user {uid}, the same as those of the model; it ended when asked to")


if __name__ == "__main__":
    main()
