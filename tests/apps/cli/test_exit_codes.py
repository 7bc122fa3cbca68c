"""Exit codes, error messages, help and completion."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

import agbm
from agbm._apps import cli
from agbm._apps.cli.reading import data as _data
from agbm._apps.cli.reading import files as files
from commands import FEW, ONE, SOLD, fails, mixed, run

COMMANDS = ["train", "predict", "compare", "tune", "inspect", "explain", "export", "report", "completion"]


class TestExitCodes:
    @pytest.mark.parametrize("command", COMMANDS)
    def test_help_has_examples(self, command, capsys):
        with pytest.raises(SystemExit) as ended:
            cli.main([command, "--help"])
        assert ended.value.code == 0
        assert f"agbm {command}" in capsys.readouterr().out.split("examples:")[1]

    def test_wrong_arguments_end_with_2(self, capsys):
        with pytest.raises(SystemExit) as ended:
            cli.main(["train"])
        assert ended.value.code == 2
        with pytest.raises(SystemExit) as ended:
            cli.main(["trian"])
        assert ended.value.code == 2

    def test_interrupt_ends_with_130(self, here, monkeypatch, capsys):
        def interrupted(*arguments):
            raise KeyboardInterrupt

        monkeypatch.setattr(_data.Question, "fit", interrupted)
        assert cli.main(SOLD) == 130
        assert capsys.readouterr().err == "interrupted\n"
        assert not (here / "sold.agbm").exists()

    def test_unexpected_errors_are_one_line(self, here, monkeypatch, capsys):
        def broken(*arguments):
            raise RuntimeError("line 1\nline 2")

        monkeypatch.setattr(_data.Question, "fit", broken)
        assert "RuntimeError: line 1 line 2 (agbm --debug" in fails(capsys, *SOLD, "--quiet")
        for arguments in ["--debug", *SOLD], [*SOLD, "--debug"]:
            with pytest.raises(RuntimeError):
                cli.main(arguments)

    def test_warnings_are_one_line(self, here, capsys):
        run(*SOLD, *FEW, "--quiet", "--set", "max_iter=60", "method=gbm", "learning_rate=1e6")
        assert re.fullmatch(r"agbm: warning: Training diverged .*\n", capsys.readouterr().err)

    @pytest.mark.slow
    def test_failure_of_a_process_ends_with_1(self, here):
        failed = subprocess.run([sys.executable, "-m", "agbm", "inspect", "none.agbm"], capture_output=True, text=True)
        assert failed.returncode == 1
        assert "Traceback" not in failed.stderr

    @pytest.mark.slow
    def test_output_in_a_narrow_encoding(self, here):
        """Characters that the encoding lacks are escaped, and JSON stays valid."""
        mixed().rename(columns={"size": "gr\u00f6\u00dfe"}).to_csv("mixed.csv", index=False)
        train = ["train", "mixed.csv", "--target", "price", "--out", "m.agbm", "--quiet", *ONE]
        code = f"from agbm._apps import cli; print(cli.main({[*train, '--json']}), cli.main({train}))"
        environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
        assert (done.returncode, done.stderr) == (0, "")
        found, end = json.JSONDecoder().raw_decode(done.stdout)
        assert "gr\u00f6\u00dfe" in found["features"]
        assert r"R\xb2" in done.stdout[end:]
        assert done.stdout.endswith("0 0\n")

    @pytest.mark.slow
    def test_success_with_a_closed_standard_output(self, here):
        command = f"{sys.executable} -m agbm {' '.join([*SOLD, *ONE])} --quiet >&-"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        assert agbm.load("sold.agbm").n_trees_ == 8

    @pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
    def test_completion_in_bash(self, here, capsys):
        run("completion", "bash")
        (here / "agbm.bash").write_text(capsys.readouterr().out)
        script = (
            "source agbm.bash; COMP_WORDS=(agbm tra); COMP_CWORD=1; COMP_LINE='agbm tra'; COMP_POINT=8; "
            "$(complete -p agbm | sed -E 's/.*-F (\\S+).*/\\1/') agbm tra agbm; echo ${COMPREPLY[@]}"
        )
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
        assert done.stdout.split() == ["train"], done
