"""Options that commands share. Nothing heavy is imported here, so that --help is fast."""

from __future__ import annotations

import argparse
import codecs
import io
import textwrap
from dataclasses import dataclass

HELP_WIDTH = 79

EXTENSIONS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
}
"""Formats by file name extension."""


@dataclass(frozen=True)
class Form:
    """How a table is stored. All fields but `format` apply to csv only; other formats ignore them."""

    format: str | None = None
    """None: by the extension of the file."""
    header: bool = True
    missing: tuple[str, ...] = ()
    """Further texts that stand for missing values."""
    decimal: str | None = None
    encoding: str | None = None

    def completed(self, default: Form) -> Form:
        """Return the form with what it does not specify taken from another one."""
        return Form(
            self.format or default.format,
            self.header and default.header,
            tuple(dict.fromkeys([*default.missing, *self.missing])),
            self.decimal or default.decimal,
            self.encoding or default.encoding,
        )


USUAL = Form(decimal=".", encoding="utf-8")


def form_of(arguments: argparse.Namespace) -> Form:
    """Return the form that the options specify."""
    header, missing = not arguments.no_header, tuple(arguments.missing)
    return Form(arguments.format, header, missing, arguments.decimal, arguments.encoding)


def check_form(arguments: argparse.Namespace, format: str) -> None:
    """Raise ValueError for options that only csv files have."""
    given = {
        "--no-header": arguments.no_header,
        "--missing": " ".join(arguments.missing),
        "--decimal": arguments.decimal,
        "--encoding": arguments.encoding,
    }
    for option, value in given.items():
        if value and format != "csv":
            shown = option if value is True else f"{option} {value}"
            raise ValueError(f"{shown}: this option is for csv files, but the file is {format}; omit the option.")


def add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    usage: str,
    *,
    help: str,
    description: str,
    examples: str,
) -> argparse.ArgumentParser:
    """Add a command whose help ends with examples.

    `usage` lists the positional arguments first: an option that takes several values would consume a file after it.
    """
    return commands.add_parser(
        usage.split()[1],
        usage=usage,
        help=help,
        description=textwrap.fill(description, HELP_WIDTH),
        epilog=f"examples:{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the options that control what is printed."""
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of lines")
    parser.add_argument("--quiet", action="store_true", help="do not show progress")


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the argument for a model file."""
    parser.add_argument("model", help="model file written by agbm train or model.save")


def add_file(parser: argparse.ArgumentParser, needed: bool = True) -> None:
    """Add the arguments that describe a file with a table."""
    kinds = "csv, parquet, arrow or svmlight file, or a folder of such files; - reads standard input"
    parser.add_argument("data", nargs=None if needed else "?", help=kinds)
    parser.add_argument(
        "--format",
        choices=list(dict.fromkeys(EXTENSIONS.values())),
        help="format of the file (default: by its extension; csv for standard input)",
    )
    parser.add_argument("--no-header", action="store_true", help="the csv file has no header; columns are c0, c1, ...")
    parser.add_argument(
        "--missing",
        metavar="TEXT",
        nargs="+",
        action="extend",
        default=[],
        help="further texts in csv files that stand for missing values, such as ? or -999",
    )
    parser.add_argument("--decimal", choices=(".", ","), help="decimal mark of csv files (default: .)")
    parser.add_argument("--encoding", type=_encoding, help="encoding of csv files, such as latin-1 (default: utf-8)")


def _encoding(name: str) -> str:
    """Return the name that Python uses for a text encoding."""
    if not is_encoding(name):
        raise argparse.ArgumentTypeError(f"unknown encoding {name!r}; use a name such as latin-1, cp1252 or utf-16")
    return codecs.lookup(name).name


def is_encoding(name: str) -> bool:
    """Return whether Python has a text encoding of this name."""
    try:
        io.TextIOWrapper(io.BytesIO(), name)  # raises LookupError also for codecs between bytes, such as hex
    except (LookupError, ValueError):
        return False
    return True


def add_question(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that describe a table and its target."""
    add_file(parser)
    parser.add_argument("--target", metavar="COLUMN", help="column to predict (not for svmlight, which has labels)")
    parser.add_argument(
        "--task", choices=("classification", "regression"), help="default: inferred from the target, and printed"
    )
    _add_columns(parser, "--drop", "columns to ignore")
    _add_columns(parser, "--categorical", "numeric columns to treat as categories; identifiers to keep as categories")
    _add_columns(
        parser,
        "--numeric",
        "text columns to read as numbers (decimal commas are supported, other text becomes missing values); "
        "identifiers to keep as numbers",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the split and of the model (default: %(default)s)")
    parser.add_argument("--jobs", type=int, help="number of threads, which does not affect the model (default: all)")
    add_unit(parser)
    parser.set_defaults(weight=None, offset=None, exposure=None, group=None, time=None, event=None)


def add_unit(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which rows are held out together."""
    unit = parser.add_mutually_exclusive_group()
    unit.add_argument(
        "--groups", metavar="COLUMN",
        help="column with the group of each row, such as a customer: groups are held out whole; not a feature",
    )  # fmt: skip
    unit.add_argument(
        "--time-order", metavar="COLUMN",
        help="column with the time of each row: the last rows are for testing, and later rows validate earlier ones",
    )  # fmt: skip


def add_group(parser: argparse.ArgumentParser) -> None:
    """Add the option for rankings."""
    parser.add_argument(
        "--group", metavar="COLUMN",
        help="column with the query of each row: learn to rank the rows of a query, by the target as their relevance",
    )  # fmt: skip


def add_survival(parser: argparse.ArgumentParser) -> None:
    """Add the options for survival analysis."""
    parser.add_argument("--time", metavar="COLUMN", help="column with the time of an event, in place of --target")
    parser.add_argument(
        "--event", metavar="COLUMN", help="column with 1 if --time is that of an event, and 0 if it is censored"
    )


def _add_columns(parser: argparse.ArgumentParser, option: str, help: str) -> None:
    parser.add_argument(option, metavar="COLUMN", nargs="+", action="extend", default=[], help=help)


def add_offset(parser: argparse.ArgumentParser) -> argparse._MutuallyExclusiveGroup:
    """Add the options for a column with offsets."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--offset", metavar="COLUMN", help="column with raw scores that the model is added to")
    group.add_argument(
        "--exposure", metavar="COLUMN",
        help="column with exposures, whose logarithms are offsets; for loss=poisson, gamma and tweedie",
    )  # fmt: skip
    return group


def add_parameters(parser: argparse.ArgumentParser, help: str) -> None:
    """Add the option for parameters of the estimator."""
    parser.add_argument(
        "--set", metavar="NAME=VALUE", nargs="+", action="extend", default=[], dest="parameters", help=help
    )


def add_shares(parser: argparse.ArgumentParser) -> None:
    """Add the options that control the split into training, validation and test rows."""
    add_test_fraction(parser)
    parser.add_argument(
        "--validation-fraction", type=float, default=0.1, metavar="SHARE",
        help="share of the remaining rows to use for early stopping (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--rows", type=int, metavar="N", help="use a random sample of N rows")


def add_test_fraction(parser: argparse._ActionsContainer) -> None:
    """Add the option for the share of the rows that is held out for testing."""
    parser.add_argument(
        "--test-fraction", type=float, default=0.2, metavar="SHARE",
        help="share of the rows to hold out for testing (default: %(default)s)",
    )  # fmt: skip
