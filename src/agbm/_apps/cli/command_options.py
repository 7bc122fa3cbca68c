"""The parsers of the commands. Modules with the work of a command are imported only when the command runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TypeAlias

from ..evaluation.contenders import PACKAGES, PAPER, let_idle_threads_sleep
from .shared_options import (
    add_command,
    add_file,
    add_group,
    add_model,
    add_offset,
    add_output,
    add_parameters,
    add_question,
    add_shares,
    add_survival,
    add_test_fraction,
    add_unit,
)
from .status import status

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

EXPORT_FORMATS = ("onnx", "treelite", "lightgbm", "c", "js", "text", "dot")


def _train(commands: Commands, help: str) -> None:
    parser = add_command(
        commands,
        "agbm train DATA --target COLUMN --out MODEL [options]",
        help=help,
        description="Train a model on a table in a file. The types of the columns and the task (classification or "
        "regression) are inferred and printed. By default 20 % of the rows are held out as a test set, and 10 % of the "
        "remaining rows are used for early stopping. A table that does not fit into memory is read in batches.",
        examples="""
  agbm train adult.csv --target income --out adult.agbm
  agbm train houses.parquet --target price --out houses.agbm --folds 5
  agbm train visits.csv --target cost --groups patient --out visits.agbm
  agbm train demand.csv --target sold --time-order day --out demand.agbm
  agbm train export.csv --target y --out y.agbm --decimal , --encoding latin-1
  agbm train policies.csv --target claims --exposure years --set loss=poisson \\
      --task regression --out claims.agbm
  agbm train houses.csv --target price --quantiles 0.05 0.5 0.95 --out q.agbm
  agbm train results.csv --target relevance --group query --out rank.agbm
  agbm train patients.csv --time days --event died --out survival.agbm
  agbm train a1a.svmlight --out a1a.agbm --set method=agbm learning_rate=0.05
  agbm train clicks/ --target clicked --out clicks.agbm --test later/""",
    )
    add_question(parser)
    add_group(parser)
    add_survival(parser)
    parser.add_argument("--weight", metavar="COLUMN", help="column with sample weights for training")
    add_offset(parser)
    parser.add_argument("--out", metavar="MODEL", type=Path, required=True, help="output file, such as m.agbm")
    test = parser.add_mutually_exclusive_group()
    test.add_argument("--test", metavar="FILE", help="evaluate the model on the rows of another file")
    add_test_fraction(test)
    test.add_argument(
        "--folds", type=int, metavar="K",
        help="evaluate by K-fold cross-validation; the saved model is trained on all rows",
    )  # fmt: skip
    add_parameters(parser, "parameters of the model, such as method=agbm learning_rate=0.05 max_iter=500")
    parser.add_argument(
        "--quantiles", metavar="Q", type=float, nargs="+",
        help="predict these quantiles, such as 0.05 0.5 0.95, instead of the mean",
    )  # fmt: skip
    parser.add_argument(
        "--metric", metavar="NAME",
        help="metric for early stopping, the name of a scorer of scikit-learn such as roc_auc (default: the loss)",
    )  # fmt: skip
    parser.add_argument("--no-early-stopping", action="store_true", help="train for max_iter iterations (default: 100)")
    parser.add_argument(
        "--checkpoint", metavar="FILE", type=Path,
        help="save checkpoints during training; the same command resumes from this file",
    )  # fmt: skip
    parser.add_argument("--stream", action="store_true", help="read in batches even if the table fits into memory")
    parser.add_argument("--report", metavar="PAGE", type=Path, help="write an HTML report, such as m.html")
    add_output(parser)
    parser.set_defaults(run=partial(_run, "train"))


def _predict(commands: Commands, help: str) -> None:
    parser = add_command(
        commands,
        "agbm predict MODEL DATA --out FILE [options]",
        help=help,
        description="Predict the rows of a file. It is read in batches and may be larger than memory. Columns are "
        "matched by name; columns that the model does not use are ignored. Offsets or exposures, the texts for "
        "missing values, the decimal mark and the encoding are those of the training data, unless options say "
        "otherwise.",
        examples="""
  agbm predict adult.agbm new.csv --out predictions.csv
  agbm predict adult.agbm new.parquet --proba --keep id --out probabilities.csv
  agbm predict demand.agbm june.csv --interval 0.9 --out intervals.csv
  cat new.csv | agbm predict adult.agbm - --out - | head""",
    )
    add_model(parser)
    add_file(parser)
    parser.add_argument(
        "--out", required=True, help="output file (csv, parquet or arrow, by its extension); - prints csv"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--proba", action="store_true", help="write class probabilities instead of the predicted class")
    what.add_argument(
        "--scores", action="store_true", help="write raw scores: log-odds, or values before the inverse link"
    )
    parser.add_argument(
        "--interval", type=float, metavar="COVERAGE",
        help="add intervals (columns lower and upper) that contain this share of the targets, such as 0.9; for "
        "classes, a column set",
    )  # fmt: skip
    parser.add_argument(
        "--quantiles", metavar="Q", type=float, nargs="+",
        help="add these quantiles of the predicted distributions (columns quantile_Q), for models with a distribution",
    )  # fmt: skip
    offsets = add_offset(parser)
    offsets.add_argument(
        "--no-offset", action="store_true", help="ignore the column of offsets or exposures of training"
    )
    parser.add_argument(
        "--keep", metavar="COLUMN", nargs="+", action="extend", default=[],
        help="columns to copy to the output, such as an identifier",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print the result as a JSON object")
    parser.set_defaults(run=partial(_run, "predict"))


def _update(commands: Commands, help: str) -> None:
    parser = add_command(
        commands,
        "agbm update MODEL DATA [--mode MODE --out NEW] [options]",
        help=help,
        description="Change a model with the rows of a file, and show its metrics before and after on rows of the file "
        "that are held out: at random, or as in training with --groups or --time-order. trees: more trees on top of "
        "the model; leaves: new values of all leaves; weights: new weights of the trees; all: a new model with the "
        "same settings. Without --mode all four are compared, and nothing is saved.",
        examples="""
  agbm update demand.agbm june.csv
  agbm update demand.agbm june.csv --mode leaves --out demand-june.agbm
  agbm update demand.agbm june.csv --mode trees --max-iter 50 --out new.agbm""",
    )
    add_model(parser)
    add_file(parser)
    parser.add_argument("--mode", choices=("trees", "leaves", "weights", "all"), help="what to change")
    parser.add_argument("--out", metavar="NEW", type=Path, help="output file for the updated model")
    parser.add_argument("--target", metavar="COLUMN", help="target column of DATA (default: as in training)")
    add_unit(parser)
    add_test_fraction(parser)
    parser.add_argument("--max-iter", type=int, help="maximum number of further iterations, for trees and all")
    parser.add_argument(
        "--old-weight", type=float, metavar="W",
        help="for leaves and weights: new rows that an old row counts for (default: 0.3)",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="seed of the split (default: %(default)s)")
    parser.add_argument("--jobs", type=int, help="number of threads, which does not affect the model (default: all)")
    add_output(parser)
    parser.set_defaults(run=partial(_run, "update"))


def _compare(commands: Commands, help: str) -> None:
    parser = add_command(
        commands,
        "agbm compare DATA --target COLUMN [options]",
        help=help,
        description="Train the default of agbm, one model of it, and other boosting libraries that are installed, on "
        "the same rows of a table, with the same patience for early stopping, and evaluate them on the same test rows. "
        "All other settings are the defaults of each library. Beside LightGBM, five models of it are averaged, each of "
        "which holds out another fifth of the rows, as the members of agbm do.",
        examples="""
  agbm compare adult.csv --target income --report adult.html
  agbm compare houses.csv --target price --methods gbm agbm --peers LightGBM
  agbm compare results.csv --target relevance --group query
  agbm compare patients.csv --time days --event died
  agbm compare clicks/ --target clicked --rows 200000 --peers""",
    )
    add_question(parser)
    add_group(parser)
    add_survival(parser)
    parser.add_argument(
        "--methods", nargs="*", choices=list(PAPER), default=[], metavar="METHOD",
        help=f"also methods of the paper: {', '.join(PAPER)}",
    )  # fmt: skip
    parser.add_argument(
        "--peers", nargs="*", choices=list(PACKAGES), metavar="LIBRARY",
        help=f"other libraries: {', '.join(PACKAGES)} (default: all that are installed)",
    )  # fmt: skip
    add_parameters(parser, "parameters of the agbm methods")
    add_shares(parser)
    parser.add_argument("--max-iter", type=int, help="maximum number of iterations (default: 1000)")
    parser.add_argument("--report", metavar="PAGE", type=Path, help="write an HTML report, such as m.html")
    add_output(parser)
    parser.set_defaults(run=partial(_run, "compare", before=let_idle_threads_sleep))


def _tune(commands: Commands, help: str) -> None:
    parser = add_command(
        commands,
        "agbm tune DATA --target COLUMN --out MODEL [options]",
        help=help,
        description="Search for better parameters than the defaults with Optuna, for a time limit or a number of "
        "trials. The defaults are the first trial. All trials are stored in a file, so that the same command resumes "
        "the search. At the end the best parameters and the defaults are evaluated on a test set that the search has "
        "not used.",
        examples="""
  agbm tune adult.csv --target income --seconds 600 --out adult.agbm
      (the same command again resumes the search)
  agbm tune houses.csv --target price --trials 50 --set max_depth=4 --out h.agbm""",
    )
    add_question(parser)
    parser.add_argument("--out", metavar="MODEL", type=Path, required=True, help="output file for the best model")
    parser.add_argument(
        "--seconds", type=float, help="time limit of the search (default: 300 if --trials is not given)"
    )
    parser.add_argument("--trials", type=int, help="maximum number of trials")
    parser.add_argument("--study", metavar="FILE", type=Path, help="file that stores the trials (default: MODEL.study)")
    add_parameters(parser, "fixed parameters, which are not searched")
    add_shares(parser)
    add_output(parser)
    parser.set_defaults(run=partial(_run, "tune"))


def _diff(commands: Commands, help: str) -> None:
    parser = add_command(
        commands,
        "agbm diff MODEL OTHER [--json]",
        help=help,
        description="Compare two model files: whether they predict the same, or else the first iteration, tree and "
        "node that differ, and whether training rows, parameters, version or seed differ. The exit code is 0 if the "
        "models predict the same, and 1 otherwise.",
        examples="""
  agbm diff monday.agbm tuesday.agbm
  agbm diff monday.agbm tuesday.agbm --json | jq .same""",
    )
    add_model(parser)
    parser.add_argument("other", help="the other model file")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of lines")
    parser.set_defaults(run=partial(_run, "diff"))


def _verify(commands: Commands, help: str) -> None:
    parser = add_command(
        commands,
        "agbm verify MODEL DATA [--all | --sample K | --iteration M] [options]",
        help=help,
        description="Check whether a model is the one that its training data give. The options of agbm train that "
        "the model was trained with are recorded in its file. By default the training is repeated. The exit code is 0 "
        "if the model is verified, and 1 if something differs, which is named.",
        examples="""
  agbm verify credit.agbm loans.csv
  agbm verify credit.agbm loans.csv --sample 5
  agbm verify credit.agbm loans.csv --iteration 17""",
    )
    add_model(parser)
    parser.add_argument("data", help="the file that the model was trained on, or a copy of it")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--all", action="store_true", help="repeat the training as a whole (the default)")
    what.add_argument(
        "--sample", type=int, metavar="K", help="grow the trees of K random iterations again, and replay all others"
    )
    what.add_argument(
        "--iteration", type=int, metavar="M", help="replay the iterations before M, and grow the trees of M again"
    )
    parser.add_argument("--jobs", type=int, help="number of threads, which does not affect the model (default: all)")
    add_output(parser)
    parser.set_defaults(run=partial(_run, "verify"))


def _inspect(commands: Commands, help: str) -> None:
    parser = add_command(
        commands,
        "agbm inspect MODEL [--json]",
        help=help,
        description="Show the contents of a model file: features and target, how the model was trained, and which "
        "features are important. Model files contain data only: loading one never runs code.",
        examples="\n  agbm inspect adult.agbm\n  agbm inspect adult.agbm --json | jq .importances",
    )
    add_model(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of lines")
    parser.set_defaults(run=partial(_run, "inspect"))


def _explain(commands: Commands, help: str) -> None:
    parser = add_command(
        commands,
        "agbm explain MODEL DATA [options]",
        help=help,
        description="Show the reasons for predictions in words, and how much each feature contributes to the score of "
        "a row (exact Shapley values). The "
        "contributions of a row and the base value, the mean score, add up to its score: log-odds, or the value before "
        "the inverse link.",
        examples="""
  agbm explain adult.agbm new.csv --rows 3
  agbm explain adult.agbm new.csv --out contributions.parquet""",
    )
    add_model(parser)
    add_file(parser)
    parser.add_argument("--rows", type=int, default=5, help="number of rows to show (default: %(default)s)")
    parser.add_argument("--top", type=int, default=8, help="number of features to show per row (default: %(default)s)")
    parser.add_argument(
        "--out", metavar="FILE", type=Path, help="write the contributions of all rows as csv, parquet or arrow"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of lines")
    parser.set_defaults(run=partial(_run, "explain"))


def _export(commands: Commands, help: str) -> None:
    parser = add_command(
        commands,
        "agbm export MODEL --to FORMAT --out FILE [options]",
        help=help,
        description="Export a model for other programs: as ONNX, as a binary checkpoint of Treelite, as a text file of "
        "LightGBM, as a C file or a JavaScript module without dependencies, or one of its trees as text or as a "
        "Graphviz graph.",
        examples="""
  agbm export adult.agbm --to onnx --out adult.onnx
  agbm export adult.agbm --to c --out adult.c
  agbm export adult.agbm --to text --tree 3 --out tree.txt""",
    )
    add_model(parser)
    parser.add_argument("--to", required=True, choices=EXPORT_FORMATS, help="output format")
    parser.add_argument("--out", required=True, metavar="FILE", type=Path, help="output file")
    parser.add_argument(
        "--tree", type=int, default=0, help="index of the tree, for text and dot (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print the result as a JSON object")
    parser.set_defaults(run=partial(_run, "export"))


def _report(commands: Commands, help: str) -> None:
    parser = add_command(
        commands,
        "agbm report MODEL [DATA] --out PAGE [options]",
        help=help,
        description="Write a report about a model as a single HTML file that needs no network access. With DATA the "
        "model is evaluated on its rows: metrics next to a baseline, ROC, precision-recall, gain and calibration "
        "curves, confusion matrix, costs by threshold, residuals, segments with a high loss, drift since the training, "
        "contributions, partial dependence. Without DATA the metrics are those that agbm train saved. Needs "
        "matplotlib.",
        examples="""
  agbm report adult.agbm --out adult.html
  agbm report adult.agbm later.csv --target income --out later.html
  agbm report churn.agbm later.csv --positive yes --costs 1 5 --out later.html
  agbm report churn.agbm later.csv --training churn.csv --out later.html""",
    )
    add_model(parser)
    add_file(parser, needed=False)
    parser.add_argument("--target", metavar="COLUMN", help="target column of DATA (default: as in training)")
    parser.add_argument(
        "--positive", metavar="CLASS", help="the positive one of two classes (default: the one with fewer rows of DATA)"
    )
    parser.add_argument(
        "--groups", metavar="COLUMN",
        help="show the coverage of intervals by the groups in this column (default: that of agbm train --groups)",
    )  # fmt: skip
    parser.add_argument(
        "--training", metavar="FILE",
        help="training rows: report how well a classifier tells them from those of DATA",
    )  # fmt: skip
    parser.add_argument(
        "--costs", nargs=2, type=float, metavar=("FP", "FN"),
        help="costs of a false positive and of a false negative, for two classes (default: 1 1)",
    )  # fmt: skip
    parser.add_argument(
        "--no-rows", action="store_true", help="leave out the what-if panel, which contains rows of DATA"
    )
    parser.add_argument("--out", required=True, metavar="PAGE", type=Path, help="output file, such as m.html")
    add_output(parser)
    parser.set_defaults(run=partial(_run, "report"))


def _paper(commands: Commands, help: str) -> None:
    import_module("..paper.command", __package__).add_to(commands)


def _completion(commands: Commands, help: str) -> None:
    parser = add_command(
        commands,
        "agbm completion SHELL",
        help=help,
        description="Print a script that lets a shell complete the commands and options of agbm.",
        examples="""
  agbm completion bash > ~/.local/share/bash-completion/completions/agbm
  agbm completion zsh > ~/.zfunc/_agbm""",
    )
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"))
    parser.set_defaults(run=partial(_run, "completion"))


COMMANDS: dict[str, tuple[str, Callable[[Commands, str], None]]] = {
    "train": ("train a model on a table in a file", _train),
    "predict": ("predict the rows of a file", _predict),
    "update": ("change a model with new rows", _update),
    "compare": ("compare the default with other libraries on a table", _compare),
    "tune": ("search for better parameters than the defaults", _tune),
    "diff": ("compare two model files", _diff),
    "verify": ("check whether a model is the one that its training data give", _verify),
    "inspect": ("show the contents of a model file", _inspect),
    "explain": ("show how much each feature contributes to predictions", _explain),
    "export": ("export a model for other programs", _export),
    "report": ("write an HTML report about a model", _report),
    "paper": ("rerun the experiments of the paper", _paper),
    "completion": ("print a completion script for a shell", _completion),
}
"""Maps names of commands to their help in one line and to the function that adds them to the parser."""


def add_commands(commands: Commands, wanted: str | None) -> None:
    """Add all commands; if one is wanted, the others are only named and have no options."""
    for name, (help, add) in COMMANDS.items():
        if wanted in (name, None):
            add(commands, help)
        else:
            commands.add_parser(name, help=help)


def _run(name: str, arguments: argparse.Namespace, before: Callable[[], None] | None = None) -> int | None:
    """Import the module of a command, which takes seconds, and run it; returns its exit code, if it has its own."""
    if before is not None:
        before()
    with status(arguments):
        module = import_module(f".commands.{name}", __package__)
    code: int | None = module.run(arguments)
    return code
