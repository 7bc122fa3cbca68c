"""Output files of commands: inputs are never overwritten, paths are checked first, and no trained model is lost."""

import errno
import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import agbm
from agbm._apps import cli
from agbm._apps.cli.reading import data as _data
from agbm._apps.cli.reading import files as files
from commands import FEW, ONE, SOLD, agbm_table, fails, run

SOLD_FROM = ["train", "--target", "sold", "--drop", "price", "id", *FEW, "--quiet"]


@pytest.fixture
def trained(here, sold_model):
    """A model, and other names of it and of the data."""
    shutil.copy(sold_model, "sold.agbm")
    Path("folder").mkdir()
    pd.read_csv("mixed.csv").to_parquet("folder/0.parquet")
    Path("link.csv").symlink_to("mixed.csv")
    Path("hard.csv").hardlink_to("mixed.csv")
    Path("hard.parquet").hardlink_to("folder/0.parquet")
    return here


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class TestNothingIsOverwritten:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["predict", "sold.agbm", "mixed.csv", "--out", "mixed.csv"], "--out mixed.csv is the same file as DATA"),
            (["predict", "sold.agbm", "./mixed.csv", "--out", "folder/../mixed.csv"], "is the same file as DATA"),
            (["predict", "sold.agbm", "mixed.csv", "--out", "link.csv"], "--out link.csv is the same file as DATA"),
            (["predict", "sold.agbm", "mixed.csv", "--out", "hard.csv"], "--out hard.csv is the same file as DATA"),
            (["predict", "sold.agbm", "link.csv", "--out", "mixed.csv"], "is the same file as DATA link.csv"),
            (["predict", "sold.agbm", "folder", "--out", "folder/0.parquet"], "is part of the input DATA folder"),
            (["predict", "sold.agbm", "folder", "--out", "folder/1.parquet"], "is part of the input DATA folder"),
            (["predict", "sold.agbm", "folder", "--out", "hard.parquet"], "is part of the input DATA folder"),
            (["explain", "sold.agbm", "mixed.csv", "--out", "mixed.csv"], "--out mixed.csv is the same file as DATA"),
            (["report", "sold.agbm", "--out", "sold.agbm"], "--out sold.agbm is the same file as MODEL sold.agbm"),
            (["report", "sold.agbm", "mixed.csv", "--out", "mixed.csv"], "--out mixed.csv is the same file as DATA"),
            (["export", "sold.agbm", "--to", "text", "--out", "sold.agbm"], "is the same file as MODEL sold.agbm"),
            ([*SOLD_FROM, "mixed.csv", "--out", "mixed.csv"], "--out mixed.csv is the same file as DATA mixed.csv"),
            ([*SOLD_FROM, "folder", "--out", "folder/m.agbm"], "is part of the input DATA folder"),
            ([*SOLD_FROM, "folder", "--test", "mixed.csv", "--out", "link.csv"], "the same file as --test mixed.csv"),
            ([*SOLD, "--report", "sold.agbm"], "--report sold.agbm is the same file as --out sold.agbm"),
            ([*SOLD, "--report", "mixed.csv"], "--report mixed.csv is the same file as DATA mixed.csv"),
            ([*SOLD, "--checkpoint", "sold.agbm"], "--checkpoint sold.agbm is the same file as --out sold.agbm"),
            ([*SOLD, "--checkpoint", "mixed.csv"], "--checkpoint mixed.csv is the same file as DATA mixed.csv"),
            ([*SOLD, "--report", "new", "--checkpoint", "./new"], "--checkpoint new is the same file as --report new"),
            (["compare", "mixed.csv", "--target", "sold", "--report", "hard.csv"], "the same file as DATA mixed.csv"),
            (["tune", "mixed.csv", "--target", "sold", "--out", "link.csv"], "--out link.csv is the same file as DATA"),
            (["tune", "mixed.csv", "--target", "sold", "--out", "m.agbm", "--study", "mixed.csv"], "--study mixed.csv"),
            (["tune", "mixed.csv", "--target", "sold", "--out", "m.agbm", "--study", "m.agbm"], "as --out m.agbm"),
        ],
        ids=lambda given: " ".join(given) if isinstance(given, list) else None,
    )  # fmt: skip
    def test_refused_before_anything_is_read(self, arguments, message, trained, capsys, monkeypatch):
        monkeypatch.setattr(_data, "open_table", None)
        monkeypatch.setattr("agbm._apps.cli.model.open_table", None)
        before = contents(trained)
        assert message in fails(capsys, *arguments)
        assert contents(trained) == before

    def test_devices_can_be_written_to(self, trained):
        run(*SOLD_FROM, "mixed.csv", "--out", "/dev/null", "--report", "/dev/null")

    @pytest.mark.parametrize("other", ["sold.agbm", "notes.txt", "empty.txt"])
    def test_other_files_are_not_used_as_checkpoint(self, other, trained, capsys):
        Path("notes.txt").write_text("notes")
        Path("empty.txt").touch()
        before = contents(trained)
        train = [*SOLD_FROM, "mixed.csv", "--out", "other.agbm", "--checkpoint", other]
        assert "cannot be read: " in fails(capsys, *train)
        assert contents(trained) == before

    @pytest.mark.parametrize("other", ["sold.agbm", "notes.txt"])
    def test_other_files_are_not_used_as_study(self, other, trained, capsys):
        Path("notes.txt").write_text("notes\n")
        before = contents(trained)
        tune = ["tune", "mixed.csv", "--target", "sold", "--out", "other.agbm", "--study", other, "--quiet"]
        assert "is not an Optuna study" in fails(capsys, *tune)
        assert contents(trained) == before


class TestUnwritablePaths:
    @pytest.fixture
    def untrained(self, trained, monkeypatch):
        """Reading a table or training a model would fail here."""
        monkeypatch.setattr(_data, "open_table", None)
        monkeypatch.setattr("agbm._apps.cli.model.open_table", None)
        return trained

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("path", "message"),
        [
            ("/proc/m.csv", "cannot be written: No such file or directory"),
            ("mixed.csv/m.csv", "cannot be written: there is no folder"),
            ("nowhere/m.csv", "cannot be written: there is no folder"),
            ("folder", "'folder' is a folder; use the path of a file"),
        ],
    )
    @pytest.mark.parametrize(
        "arguments",
        [
            ["train", "mixed.csv", "--target", "sold", "--out"],
            [*SOLD, "--report"],
            [*SOLD, "--checkpoint"],
            ["tune", "mixed.csv", "--target", "sold", "--out"],
            ["tune", "mixed.csv", "--target", "sold", "--out", "m.agbm", "--study"],
            ["compare", "mixed.csv", "--target", "sold", "--report"],
            ["export", "sold.agbm", "--to", "text", "--out"],
            ["report", "sold.agbm", "--out"],
            ["predict", "sold.agbm", "mixed.csv", "--out"],
            ["explain", "sold.agbm", "mixed.csv", "--out"],
        ],
        ids=" ".join,
    )
    def test_by_every_command(self, arguments, path, message, untrained, capsys):
        if arguments[0] in ("predict", "explain") and path == "folder":
            message = "the extension must be"
        line = fails(capsys, *arguments, path)
        assert f"{arguments[-1]} {path}" in line
        assert message in line
        assert not any(path.name.endswith(".agbm-tmp") for path in untrained.rglob("*"))

    @pytest.mark.parametrize("arguments", [[*SOLD, "--checkpoint"], ["tune", "mixed.csv", "--out", "m", "--study"]])
    def test_pipes_cannot_be_resumed(self, arguments, untrained, capsys):
        os.mkfifo("pipe")
        assert "--target" not in fails(capsys, *arguments, "pipe")
        assert "pipe is a pipe or a device, from which a run cannot resume" in fails(capsys, *arguments, "pipe")

    def test_endings(self, untrained, capsys):
        for command in "predict", "explain":
            assert "--out p.xls: the extension must be" in fails(
                capsys, command, "sold.agbm", "mixed.csv", "--out", "p.xls"
            )


@contextmanager
def piped_to(name):
    """A named pipe whose content is copied to a file."""
    os.mkfifo("pipe")
    with open(name, "wb") as file, subprocess.Popen(["cat", "pipe"], stdout=file) as copy:
        try:
            yield "pipe"
        except BaseException:
            copy.kill()  # nobody may have opened the pipe, for which it would wait
            raise
    os.remove("pipe")


@pytest.mark.slow
class TestPipes:
    @pytest.mark.parametrize("evaluation", [[], ["--folds", "2"], ["--test-fraction", "0"]], ids=str)
    def test_a_model_is_written_once(self, evaluation, trained, capsys):
        with piped_to("piped.agbm") as pipe:
            run(*SOLD_FROM, "mixed.csv", *evaluation, "--out", pipe)
        run(*SOLD_FROM, "mixed.csv", *evaluation, "--out", "file.agbm")
        piped, expected = agbm.load("piped.agbm"), agbm.load("file.agbm")
        assert Path("piped.agbm").stat().st_size < 1.1 * Path("file.agbm").stat().st_size  # not twice
        assert piped.notes_["metrics"] == expected.notes_["metrics"]
        np.testing.assert_array_equal(piped.predict_proba(agbm_table()), expected.predict_proba(agbm_table()))

    def test_interrupted_evaluation_keeps_the_model(self, trained, monkeypatch):
        def interrupted(*arguments):
            raise KeyboardInterrupt

        monkeypatch.setattr(_data.Question, "evaluate", interrupted)
        with piped_to("piped.agbm") as pipe:
            assert cli.main([*SOLD_FROM, "mixed.csv", "--out", pipe, "--set", "n_members=1"]) == 130
        assert agbm.load("piped.agbm").n_trees_ == 8

    def test_a_model_from_tune(self, trained):
        tune = "tune mixed.csv --target sold --trials 1 --set max_iter=5 --quiet --study s"
        with piped_to("piped.agbm") as pipe:
            run(*tune.split(), "--out", pipe)
        assert agbm.load("piped.agbm").max_iter == 5

    def test_predictions_pages_and_exports(self, trained):
        for command, name in [
            ("explain sold.agbm mixed.csv", "c.csv"),
            ("export sold.agbm --to text", "tree.txt"),
            ("report sold.agbm", "page.html"),
        ]:
            run(*command.split(), "--out", f"file-{name}")
            with piped_to(name) as pipe:
                run(*command.split(), "--out", pipe)
            written, expected = (Path(path).read_text() for path in (name, f"file-{name}"))
            assert len(written) == len(expected)
            assert written == expected or name == "page.html"  # which has the time

    def test_process_substitution(self, trained):
        """A pipe that is /dev/fd/63 or the like."""
        run("predict", "sold.agbm", "mixed.csv", "--out", "expected.csv")
        command = f"{sys.executable} -m agbm predict sold.agbm mixed.csv --out >(cat > p.csv) && wait $!"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        assert Path("p.csv").read_bytes() == Path("expected.csv").read_bytes()


class TestNoModelIsLost:
    def test_a_full_disk(self, trained, capsys):
        line = fails(capsys, *SOLD_FROM, "mixed.csv", "--out", "/dev/full")
        assert line == (
            "agbm: --out /dev/full could not be written: No space left on device. The model was saved to "
            "'full.rescued.agbm' instead."
        )
        rescued = agbm.load("full.rescued.agbm")
        expected = agbm.load("sold.agbm").predict_proba(agbm_table())
        np.testing.assert_array_equal(rescued.predict_proba(agbm_table()), expected)
        assert "metrics" in rescued.notes_

    @pytest.fixture
    def vanishing(self, here, monkeypatch):
        """A folder that is removed while a model is trained."""
        (here / "out").mkdir()
        fit = agbm.AGBMRegressor.fit

        def fit_and_remove(*given, **options):
            shutil.rmtree(here / "out", ignore_errors=True)
            return fit(*given, **options)

        monkeypatch.setattr(agbm.AGBMRegressor, "fit", fit_and_remove)
        return here

    PRICE = (
        "mixed.csv",
        "--target",
        "price",
        "--drop",
        "sold",
        "--set",
        "max_iter=5",
        "--quiet",
        "--out",
        "out/m.agbm",
    )

    @pytest.mark.parametrize(
        "command", [["train", *PRICE], ["tune", *PRICE, "--trials", "1", "--study", "study"]], ids=" ".join
    )
    def test_removed_folder(self, command, vanishing, capsys):
        Path("m.rescued.agbm").write_text("of an earlier time")
        line = fails(capsys, *command, "--out", "out/m.agbm")
        assert "--out out/m.agbm could not be written: there is no folder" in line
        assert line.endswith("The model was saved to 'm.rescued1.agbm' instead.")
        assert agbm.load("m.rescued1.agbm").max_iter == 5
        assert Path("m.rescued.agbm").read_text() == "of an earlier time"

    def test_temporary_folder_is_the_last_resort(self, here, tmp_path_factory, monkeypatch, capsys):
        last = tmp_path_factory.mktemp("last")
        monkeypatch.setattr("tempfile.tempdir", str(last))
        self.fail_to_replace_in(here, monkeypatch)
        line = fails(capsys, *SOLD, *ONE, "--quiet")
        assert "could not be written: No space left on device." in line
        assert f"The model was saved to '{last}/sold.rescued.agbm' instead." in line
        assert agbm.load(last / "sold.rescued.agbm").n_trees_ == 8

    def test_no_writable_folder(self, here, monkeypatch, capsys):
        self.fail_to_replace_in(Path("/"), monkeypatch)
        assert "could not be saved in any other folder either" in fails(capsys, *SOLD, *FEW, "--quiet")

    @staticmethod
    def fail_to_replace_in(folder, monkeypatch):
        replace = os.replace

        def full(source, target):
            if Path(target).is_relative_to(folder):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(source))
            return replace(source, target)

        monkeypatch.setattr(os, "replace", full)

    def test_failure_after_the_first_save(self, here, monkeypatch, capsys):
        """The model has been saved; notes that are added later are not lost either."""

        def evaluate(*arguments):
            self.fail_to_replace_in(here / "sold.agbm", monkeypatch)
            return []

        monkeypatch.setattr(_data.Question, "evaluate", evaluate)
        assert "The model was saved to 'sold.rescued.agbm' instead." in fails(capsys, *SOLD, *FEW, "--quiet")
        assert "metrics" not in agbm.load("sold.agbm").notes_
        assert agbm.load("sold.rescued.agbm").notes_["metrics"] == "[]"


def test_a_comparison_is_shown_before_its_page_is_written(here, capsys):
    compare = ["compare", "mixed.csv", "--target", "price", "--peers", "--max-iter", "3", "--json"]
    assert cli.main([*compare, "--report", "/dev/full"]) == 1
    said = capsys.readouterr()
    assert len(json.loads(said.out)["contenders"]) == 2
    assert said.err == "agbm: '/dev/full' could not be written: No space left on device.\n"


def test_an_export_that_cannot_be_written(trained, capsys):
    line = fails(capsys, "export", "sold.agbm", "--to", "text", "--out", "/dev/full")
    assert line == "agbm: '/dev/full' could not be written: No space left on device."


def test_pipes_without_an_ending_get_csv(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert files.output_format(tmp_path / "pipe") == "csv"
    with pytest.raises(ValueError, match="the extension must be"):
        files.output_format(tmp_path / "file")
