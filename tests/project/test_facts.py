"""Numbers and names in pages and docstrings are those of the code: a changed rule fails a test that names the page."""

import argparse
import inspect
import math
import re
import tomllib
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

import agbm
from agbm import AGBMClassifier, AGBMRanker, AGBMRegressor, AGBMSurvival, losses, methods
from agbm._apps import cli
from agbm._apps.report import what_if
from agbm._base.weights import MOST_REPEATS_IN_ALL
from agbm._core.schedules import SMALLEST_MOMENTUM
from agbm._data import dates, digest, text_columns
from agbm._engines.device import FEWEST_NUMBERS
from agbm._engines.distributed import dask_shards, shard
from agbm._fit import auto, temperature, views
from agbm._labels.lifetimes import MOST_TIMES
from agbm._lifecycle.update import OLD_WEIGHT
from agbm._losses.histogram_distribution import ROWS_PER_BIN
from agbm._losses.names import loss_names, named_loss
from agbm._storage.container import LARGEST_DESCRIPTION, MAGIC, VERSION
from agbm._tree.bins import MAX_SAMPLE
from agbm._tree.forest import NODE
from documents import ROOT

# A source distribution has tests, but not the documentation.
pytestmark = pytest.mark.skipif(not (ROOT / "docs").is_dir(), reason="there is no folder docs")

ESTIMATORS = (AGBMClassifier, AGBMRegressor, AGBMRanker, AGBMSurvival)
METHODS = (methods.Fading, methods.GBM, methods.VAGBM, methods.AGBM)
DIFFERENT = {"loss"}
"""Parameters that the estimators describe differently on purpose."""
LOSS = {
    "classes": losses.LogLoss(), "squares": losses.HalfSquaredError(), "distributions": losses.NormalDistribution(),
    "Cox": losses.Cox(),
}  # fmt: skip


def first(holds, most=1 << 20):
    """The smallest positive number for which something holds that also holds for all larger ones."""
    low, high = 0, most
    assert holds(high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def leaves(n_rows, loss="classes"):
    return auto.max_leaf_nodes("auto", n_rows, LOSS[loss], None)


def least(n_rows, loss="classes"):
    return auto.min_samples_leaf("auto", n_rows, LOSS[loss])


def stops(n_units, n_members, of_groups=False):
    return auto.early_stopping("auto", n_units, of_groups, has_validation=False, n_members=n_members)


def members(n_rows):
    return auto.n_members("auto", methods.Fading(), n_rows)


def l2(estimator, X, y, **settings):
    return estimator(max_iter=1, n_members=1, early_stopping=False, **settings).fit(X, y).resolved_params_[
        "l2_regularization"
    ]  # fmt: skip


def rules():
    """What "auto" stands for, as the code applies it."""
    many = 1 << 20
    most, of_squares = leaves(many), leaves(many, "squares")
    full = first(lambda n: leaves(n) == most)
    samples, samples_of_distributions = least(many), least(many, "distributions")
    full_leaf = first(lambda n: least(n) == samples)
    return SimpleNamespace(
        fewest=leaves(1), most=most, full=full, rows_per_leaf=full // most,
        of_squares=of_squares, full_of_squares=first(lambda n: leaves(n, "squares") == of_squares),
        of_distributions=leaves(many, "distributions"), fewest_of_cox=leaves(1, "Cox"),
        fewest_samples=least(1000), samples=samples, full_leaf=full_leaf, leaves=full_leaf // samples,
        fewest_samples_of_distributions=least(1000, "distributions"), samples_of_distributions=samples_of_distributions,
        leaves_of_distributions=first(lambda n: least(n, "distributions") == samples_of_distributions)
        // samples_of_distributions,
        members=members(1000), members_of_many=members(many), many=first(lambda n: members(n) < members(1000)),
        one=auto.n_members("auto", methods.GBM(), many),
        columns=auto.colsample_bynode("auto", methods.Fading(), LOSS["classes"]),
        all_columns=auto.colsample_bynode("auto", methods.GBM(), LOSS["classes"]),
        rows_of_members=first(lambda n: stops(n, n_members=5)), trial=first(lambda n: stops(n, n_members=1)),
        rows_of_one=first(lambda n: not auto.is_trial("auto", n, False, 1)),
        queries_of_members=first(lambda n: stops(n, n_members=5, of_groups=True)),
        queries_of_one=first(lambda n: stops(n, n_members=1, of_groups=True)),
        iterations=auto.max_iter("auto", True), iterations_to_the_end=auto.max_iter("auto", False),
        l2_of_rows=auto.L2_OF_COUNTS, l2_of_classes=auto.L2_OF_CLASSES, l2_rows=auto.L2_ROWS,
    )  # fmt: skip


RULES = rules()


@cache
def page(name):
    """The text of a page, each run of white space as one space."""
    return " ".join((ROOT / name).read_text().split())


def rows(name, head):
    """The rows of the table of a page whose first cell is `head`."""
    lines = iter((ROOT / name).read_text().splitlines())
    assert any(line.startswith(f"| {head} |") for line in lines), f"{name} has no table with the column {head!r}"
    next(lines)
    found = []
    for line in lines:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return found


def described(documented):
    """The entries of the section "Parameters" of a docstring: names, type and text."""
    section = inspect.getdoc(documented).split("Parameters\n----------\n")[1]
    section = re.split(r"\n\n\w+\n-+\n", section)[0]
    found = {}
    for entry in re.split(r"\n(?=\S)", section):
        head, _, text = entry.partition("\n")
        names, _, kind = head.partition(" : ")
        for name in names.split(", "):
            found[name] = kind, " ".join(text.split())
    return found


def signature(documented):
    return {name: given for name, given in inspect.signature(documented).parameters.items() if name != "self"}


class TestDocstrings:
    @pytest.mark.parametrize("estimator", ESTIMATORS)
    def test_list_the_parameters_in_order(self, estimator):
        assert list(described(estimator)) == list(signature(estimator))

    @pytest.mark.parametrize("method", METHODS)
    def test_list_the_settings_of_methods(self, method):
        assert described(method).keys() == signature(method).keys()

    @pytest.mark.parametrize("documented", [*ESTIMATORS, *METHODS])
    def test_state_the_defaults(self, documented):
        entries = described(documented)
        for name, parameter in signature(documented).items():
            kind = entries[name][0]
            if not kind and documented in METHODS:  # as for Fading, apart from this
                assert parameter.default == (
                    False if name == "second_order" else signature(methods.Fading)[name].default
                ), name
            else:
                stated = re.search(r"default=(.+)$", kind)
                assert stated, f"{documented.__name__}: {name} has no default"
                assert stated[1].strip('"') == str(parameter.default), f"{documented.__name__}: {name}"

    def test_are_the_same_for_the_same_parameter(self):
        entries = {estimator.__name__: described(estimator) for estimator in ESTIMATORS}
        for name in {name for of_one in entries.values() for name in of_one} - DIFFERENT:
            texts = {estimator: of_one[name] for estimator, of_one in entries.items() if name in of_one}
            assert len(set(texts.values())) == 1, f"{name} is described differently by {sorted(texts)}"
        for name in DIFFERENT:
            assert len({of_one[name] for of_one in entries.values()}) > 1, f"{name} is no longer different"


NUMBERS = "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"
AUTO = {
    "max_iter": [f'"auto": {RULES.iterations:,} with early stopping, otherwise {RULES.iterations_to_the_end}.'],
    "learning_rate": [
        f'"auto": {auto.LEARNING_RATE}; {methods.Fading.learning_rate_of_members} for several members of "fading" with '
        "the squared error or classes.",
    ],
    "max_leaf_nodes": [
        f"one leaf per {RULES.rows_per_leaf} training rows, but between {RULES.fewest} and {RULES.most}",
        f"({RULES.most} from {RULES.full:,} rows on)",
        f"half the square root of the number of rows if that is larger, up to {RULES.of_squares} "
        f"({RULES.full_of_squares:,} rows)",
        f"For distributions, it is {RULES.of_distributions}.",
        f"For Cox's loss, the lower bound is {RULES.fewest_of_cox}.",
    ],
    "min_samples_leaf": [
        f"1/{RULES.leaves} of the training rows, but between {RULES.fewest_samples} and "
        f"{RULES.samples} ({RULES.samples} from {RULES.full_leaf:,} rows on)",
        "for a quantile q, divided by (4 q (1 - q))^(3/4)",
        f"for distributions, 1/{RULES.leaves_of_distributions} of the rows, but between "
        f"{RULES.fewest_samples_of_distributions} and {RULES.samples_of_distributions}",
    ],
    "l2_regularization": [
        f'"auto": {RULES.l2_of_rows:.0f} if it is added to the number of rows; otherwise {RULES.l2_rows:.0f} times the '
        f"mean hessian at the initial function, as if each leaf had {RULES.l2_rows:.0f} more rows.",
        f"For classification losses: {RULES.l2_of_classes:.0f}, reduced in proportion if the mean hessian is below "
        f"{auto.L2_HESSIAN}.",
        f"For a quantile q, {RULES.l2_rows:.0f} is multiplied by 4 q (1 - q).",
        f"{RULES.l2_rows:.0f} is replaced: {auto.L2_ROWS_OF_SPREAD:.0f} for spreads, {auto.L2_ROWS_OF_TIMES:.0f} for "
        f"the first score of a time and {auto.L2_ROWS_OF_TIME_SHAPES:.0f} for its others.",
    ],
    "views": [
        f'"auto": for "fading", up to {views.KEPT} of those of the {NUMBERS[views.COLUMNS]} most important columns, '
        f"for the squared error and classes, from {auto.CROSSES_ROWS:,} rows on, if the loss on held-out rows of a "
        f"short run is lower by {100 * (1 - views.FOR_SOME):.2g} %. Two of three members see them, and all members "
        f"from {100 * (1 - views.FOR_ALL):.2g} % on",
    ],
    "colsample_bynode": [
        f'"auto": {RULES.columns} for "fading", {RULES.all_columns:.0f} for the algorithms of the paper; for a '
        "quantile q, the rest to 1 is multiplied by 4 q (1 - q).",
    ],
    "early_stopping": [
        f"with several members from {RULES.rows_of_members} rows on, and with one member from {RULES.rows_of_one:,} "
        "rows on.",
        f"these are {RULES.queries_of_members} and {RULES.queries_of_one:,} queries.",
        f"From {RULES.trial:,} rows on, a trial",
    ],
    "n_members": [
        f'"auto": {RULES.members} for "fading" with trees ({RULES.members_of_many} from {RULES.many:,} rows on), '
        f"{RULES.one} for the algorithms of the paper"
    ],
}  # fmt: skip
"""By parameter, what its docstring says about "auto"."""


class TestAuto:
    """What docstrings and pages say about "auto" is what the code does."""

    @pytest.mark.parametrize("estimator", ESTIMATORS)
    def test_docstrings_have_the_numbers(self, estimator):
        entries = described(estimator)
        wrong = [
            (name, sentence) for name, sentences in AUTO.items() for sentence in sentences
            if sentence not in entries[name][1]
        ]  # fmt: skip
        assert wrong == [], f"the docstring of {estimator.__name__} does not say this"

    def test_every_auto_is_covered(self):
        known = {name for name, (kind, _) in described(AGBMRegressor).items() if kind.endswith('default="auto"')}
        assert known - AUTO.keys() == {"loss", "multi_strategy"}

    def test_sizes_of_trees(self):
        for n in (5_000, 10_000, 15_875):
            assert leaves(n, "squares") == math.isqrt(n) // 2
        for q in (0.01, 0.1, 0.5, 0.9):
            found = auto.min_samples_leaf("auto", 100_000, losses.Quantile(q))
            assert found == round(RULES.samples / (4 * q * (1 - q)) ** 0.75)
            share = auto.colsample_bynode("auto", methods.Fading(), losses.Quantile(q))
            assert share == pytest.approx(1 - (1 - RULES.columns) * 4 * q * (1 - q))

    def test_l2(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(200, 2))
        y = np.abs(X[:, 0]) + rng.random(200)
        assert l2(AGBMRegressor, X, y) == RULES.l2_of_rows
        assert l2(AGBMRegressor, X, y, method="gbm", loss="poisson") == RULES.l2_of_rows
        for loss, factor in ((losses.Poisson(), 1.0), (losses.AbsoluteError(), 1.0), (losses.Quantile(0.9), 0.36)):
            hessian = loss.hessian(y, np.full(200, loss.best_constant(y, None)), None)
            assert l2(AGBMRegressor, X, y, loss=loss) == pytest.approx(factor * RULES.l2_rows * np.mean(hessian))
        labels = (np.arange(200) % 2).astype(float)
        assert l2(AGBMClassifier, X, labels) == RULES.l2_of_classes
        labels = (np.arange(200) < 2).astype(float)
        mean = np.mean(losses.LogLoss().hessian(labels, np.full(200, math.log(0.01 / 0.99)), None))
        assert mean < auto.L2_HESSIAN
        assert l2(AGBMClassifier, X, labels) == pytest.approx(RULES.l2_of_classes * mean / auto.L2_HESSIAN)

    def test_a_fit_resolves_them(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(RULES.rows_of_members, 2))
        found = AGBMRegressor().fit(X, X[:, 0]).resolved_params_
        assert found["early_stopping"]
        assert (found["n_members"], found["max_iter"]) == (RULES.members, RULES.iterations)
        assert (found["max_leaf_nodes"], found["colsample_bynode"]) == (RULES.fewest, RULES.columns)
        found = AGBMRegressor(method="gbm").fit(X[1:], X[1:, 0]).resolved_params_
        assert not found["early_stopping"]
        assert (found["n_members"], found["max_iter"]) == (RULES.one, RULES.iterations_to_the_end)

    def test_table_of_sizes(self):
        table = rows("docs/choosing.md", "training rows")
        assert len(table) >= 4
        for cells in table:
            n, *stated = (int(cell.replace(",", "")) for cell in cells)
            assert stated == [
                leaves(n), leaves(n, "squares"), leaves(n, "distributions"), least(n), least(n, "distributions"),
            ], n  # fmt: skip


N_MEMBERS = NUMBERS[RULES.members]
ONCE = f"from {RULES.rows_of_members} rows on (with one member from {RULES.rows_of_one:,} rows on)"
DEFAULT = methods.Fading()
REGRESSOR = AGBMRegressor()
TEST_SHARE = f"{cli.make_parser().parse_args(['train', 'a.csv', '--target', 'y', '--out', 'a.agbm']).test_fraction:.0%}"
TEST_SHARE = TEST_SHARE.replace("%", " %")

STATED = {
    "README.md": [f"The default averages {N_MEMBERS} models", "needs numpy and scikit-learn only"],
    "docs/start.md": [
        f"The model averages {N_MEMBERS} [members]",
        f"Each member holds out {REGRESSOR.validation_fraction:.0%} of the rows".replace("%", " %"),
    ],
    "docs/choosing.md": [
        f'| `n_members` | {RULES.members} for `"fading"` with trees, {RULES.members_of_many} from {RULES.many:,} rows '
        f"on; otherwise {RULES.one} |",
        f"| `early_stopping` | if `X_val` is given, or {ONCE} |",
        f"| `max_iter` | {RULES.iterations:,} with early stopping, otherwise {RULES.iterations_to_the_end} |",
        f'| `colsample_bynode` | {RULES.columns} for `"fading"`, otherwise {RULES.all_columns:.0f} |',
        f"| `l2_regularization` | {RULES.l2_of_rows:.0f} for the squared error and with gradient leaves, "
        f"{RULES.l2_of_classes:.0f} for classes, otherwise a multiple of the mean hessian |",
    ],
    "docs/coming-from.md": [f"averages {N_MEMBERS} members", "`max_bins` (at most 255)"],
    "docs/limits.md": [
        f"The default trains {N_MEMBERS} models",
        f"At most 2^{math.log2(shard.MOST_ROWS + 1):.0f} - 1 rows on one machine or worker, and "
        f"2^{math.log2(MOST_REPEATS_IN_ALL):.0f} on a cluster",
    ],
    "docs/acceleration.md": [
        f"the mean of {N_MEMBERS} such runs",
        f"A model has {N_MEMBERS} members",
        f"an l2 of {RULES.l2_of_classes:.0f} acts as a prior",
        f"the l2 is {RULES.l2_of_rows:.0f}",
        f"`Fading(entry={DEFAULT.entry}, fade={DEFAULT.fade}, growth={DEFAULT.growth}, "
        f"look_ahead={DEFAULT.look_ahead})`",
        f"λ = look_ahead {DEFAULT.look_ahead:.0f} θ = fade {DEFAULT.fade}",
        f"{DEFAULT.entry:.0f} · {DEFAULT.learning_rate_of_members}, of a Newton step",
        f"the learning rate is {auto.LEARNING_RATE}:",
    ],
    "docs/algorithms.md": [
        f"`AGBM(momentum={methods.AGBM().momentum}, correction={methods.AGBM().correction})`",
        f"`VAGBM(momentum=...)`, by default {methods.VAGBM().momentum:.0f}",
    ],
    "docs/reproducibility.md": [f"above {MAX_SAMPLE:,} rows", f"`random_state` is {REGRESSOR.random_state} by default"],
    "docs/design.md": [f"at most {MAX_SAMPLE:,} rows", f"values below 1e{math.log10(SMALLEST_MOMENTUM):.0f} count"],
    "docs/scale.md": [
        f"a fan-out of {dask_shards.FAN_OUT}",
        f"At most 2^{math.log2(shard.MOST_ROWS + 1):.0f} - 1 rows per worker, and "
        f"2^{math.log2(MOST_REPEATS_IN_ALL):.0f} rows in total",
    ],
    "docs/model-file.md": [f"at most {digest.MOST_BLOCKS:,} blocks", f"At most {LARGEST_DESCRIPTION >> 20} MB"],
    "docs/guides/columns.md": [
        f"Up to {text_columns.UNREAD_SHARE:.0%} of the distinct values (at least one, at most "
        f"{text_columns.MOST_UNREAD}) may be unreadable".replace("%", " %"),
        *(
            f"| {name} | {numbers} | {'two' if dates.CYCLES == 2.0 else dates.CYCLES} {cycle} |"
            for name, numbers, cycle in (
                ("day of year", "1 to 366", "years"), ("day of month", "1 to 31", "months"),
                ("weekday", "0 (Monday) to 6", "weeks"), ("hour", "0 to 24", "days"),
            )
        ),
    ],
    "docs/guides/command-line.md": [f"holds out {TEST_SHARE} of the rows as a test set"],
    "docs/guides/distributed.md": [f"more than {dask_shards.LONG_WAIT:.0f} seconds, a warning"],
    "docs/guides/distributions.md": [
        f"(at most {RULES.of_distributions} leaves)",
        f"`df` ({losses.StudentTDistribution().df:.0f}) is fixed",
        f"log-probabilities of about {losses.HistogramDistribution().bins} bins",
        f"at least {ROWS_PER_BIN} on average",
    ],
    "docs/guides/early-stopping.md": [
        f"`n_iter_no_change` iterations ({REGRESSOR.n_iter_no_change} by default)",
        f"if `X_val` is given, or {ONCE}",
        f'With `max_iter="auto"`, the limit is {RULES.iterations:,} iterations, or {RULES.iterations_to_the_end} '
        "without early stopping",
        f"The default therefore trains {N_MEMBERS} members",
        f"From {RULES.trial:,} to {RULES.rows_of_one:,} rows",
    ],
    "docs/guides/gpu.md": [f"from at most {MAX_SAMPLE:,} rows", f"at least {FEWEST_NUMBERS:,} numbers"],
    "docs/guides/larger-data.md": [f"for a sample of {MAX_SAMPLE:,} rows"],
    "docs/guides/probabilities.md": [
        f"between 1/{1 / temperature.SMALLEST_FACTOR:.0f} and {temperature.LARGEST_FACTOR:.0f}"
    ],
    "docs/guides/ranking.md": [
        f"from {RULES.queries_of_members} queries on, and with one member from {RULES.queries_of_one:,} queries on",
        f"the first {losses.LambdaRank.least_truncation} positions",
    ],
    "docs/guides/report.md": [
        f"up to {what_if.MOST_ROWS} test rows", f"more than {what_if.MOST_BYTES // 1_000_000} MB as JavaScript",
    ],
    "docs/guides/survival.md": [
        f"each of {losses.PiecewiseExponential().intervals} intervals of time", f"at most {MOST_TIMES:,}",
    ],
    "docs/guides/tuning.md": [f"Each fold trains all {N_MEMBERS} members"],
    "docs/guides/uncertainty.md": [f"(the default from {RULES.rows_of_members} rows on)"],
    "docs/guides/updates.md": [
        f"`old_weight` new rows ({OLD_WEIGHT});", f"{TEST_SHARE} of the rows (`--test-fraction`)",
    ],
    "docs/guides/verification.md": [f"tables of up to {digest.MOST_BLOCKS:,} rows"],
    "docs/guides/weights.md": [f"bins above {MAX_SAMPLE:,} rows"],
}  # fmt: skip
"""By page, what it says about numbers that the code defines."""


@pytest.mark.parametrize("name", STATED)
def test_pages_have_the_numbers_of_the_code(name):
    assert [sentence for sentence in STATED[name] if sentence not in page(name)] == [], f"{name} does not say this"


def test_calibration_needs_as_many_rows_as_the_page_says():
    """docs/guides/uncertainty.md: with fewer, intervals are infinite."""
    assert "(9 for 0.9, 99 for 0.99)" in page("docs/guides/uncertainty.md")
    X = np.random.default_rng(0).normal(size=(200, 2))
    model = AGBMRegressor(max_iter=2, n_members=1, early_stopping=False).fit(X[:100], X[:100, 0])
    for coverage, n_rows in ((0.9, 9), (0.99, 99)):
        model.calibrate(X[-n_rows:], X[-n_rows:, 1])
        assert np.isfinite(model.predict_interval(X[:2], coverage=coverage)).all()
        model.calibrate(X[1 - n_rows :], X[1 - n_rows :, 1])
        with pytest.warns(UserWarning, match=f"needs {n_rows} calibration rows"):
            assert np.isinf(model.predict_interval(X[:2], coverage=coverage)).all()


def test_layout_of_model_files():
    """docs/model-file.md: the header, nodes, and limits that the native code has."""
    text = page("docs/model-file.md")
    assert f"magic number 0 8 {MAGIC.hex(' ')}" in text
    assert f"version of the format 8 4 {VERSION}" in text
    node = text.partition(f"node, {NODE.itemsize} bytes ")[2].partition("```")[0]
    offsets = [NODE.fields[name][1] for name in NODE.names]
    sizes = [NODE.fields[name][0].itemsize for name in NODE.names]
    stated = [tuple(map(int, found)) for found in re.findall(r" (\d+) (\d+)(?= |$)", node)]
    assert stated[:-1] == list(zip(offsets, sizes, strict=True))
    assert sum(map(sum, stated[-1:])) == NODE.itemsize, "unused bytes"
    native = (ROOT / "native" / "forest" / "arrays.hpp").read_text()
    (levels,) = re.findall(r"kMaxDepth = (\d+);", native)
    (bits,) = re.findall(r"kMaxFeatures = 1 << (\d+);", native)
    assert f"at most {int(levels):,} levels" in text
    assert f"At most 2^{bits} features" in text
    for estimator in ESTIMATORS:
        assert f"unlimited (at most {int(levels):,})" in described(estimator)["max_depth"][1]


class TestNames:
    """Lists of names are complete."""

    def test_losses(self):
        listed = re.findall(r"\.\. autoclass:: (\w+)", page_part("docs/api.md", "## Losses", "## Plots"))
        assert sorted(listed) == sorted(losses.__all__)

    def test_names_of_losses(self):
        """Those of regression and classification are in the table of docs/api.md, each with its object."""
        listed = {}
        for names, objects in rows("docs/api.md", "loss"):
            listed.update(zip(re.findall(r'"(.+?)"', names), re.findall(r"`(.+?)`", objects), strict=True))
        for name, made in listed.items():
            found = [named_loss(task, name) for task in ("regression", "classification") if name in loss_names(task)]
            assert found, name
            assert {repr(loss) for loss in found} == {repr(eval(made, vars(losses)))}, name
        known = {name for task in ("regression", "classification") for name in loss_names(task)}
        assert {name for name in known if not name.startswith("distribution:")} == listed.keys()

    @pytest.mark.parametrize(
        ("name", "head", "task"),
        [
            ("docs/guides/distributions.md", "loss", "regression"),
            ("docs/guides/ranking.md", "`loss`", "ranking"),
            ("docs/guides/survival.md", "loss", "survival"),
        ],
    )
    def test_names_of_losses_of_a_guide(self, name, head, task):
        listed = {found for cells in rows(name, head) for found in re.findall(r'"(.+?)"', cells[0])}
        known = set(loss_names(task))
        if task == "regression":
            known = {"poisson", *(found for found in known if found.startswith("distribution:"))}
        assert listed == known - {"cox:breslow"}  # an alias

    def test_losses_without_kernels_for_gpus(self):
        """docs/guides/gpu.md: "ranking, survival, histogram distributions, lists of quantiles"."""
        assert "| ranking, survival, histogram distributions, lists of quantiles, custom losses: " in page(
            "docs/guides/gpu.md"
        )
        for task in ("regression", "classification", "ranking", "survival"):
            for name in loss_names(task):
                on_cpu = task in ("ranking", "survival") or name == "distribution:histogram" or "," in name
                assert (named_loss(task, name).row_kernel is None) == on_cpu, name

    def test_plots(self):
        listed = {cells[0].split("(")[0].strip("`") for cells in rows("docs/plots.md", "function")}
        assert listed == set(agbm.plot.__all__)

    def test_exports(self):
        listed = {name for cells in rows("docs/exports.md", "function") for name in re.findall(r"`(\w+)", cells[0])}
        assert listed == set(agbm.export.__all__)

    def test_parts_of_dates(self):
        listed = [cells[0] for cells in rows("docs/guides/columns.md", "feature")]
        assert listed == ["elapsed time", *dates.PARTS]

    def test_commands(self):
        (commands,) = (a for a in cli.make_parser()._actions if isinstance(a, argparse._SubParsersAction))
        listed = [
            name for first_cell, *_ in rows("docs/guides/command-line.md", "command")
            for name in re.findall(r"`(?:agbm )?(\w+)", first_cell)
        ]  # fmt: skip
        assert sorted(listed) == sorted(commands.choices)

    def test_methods(self):
        described_ones = {
            name for cells in rows("docs/choosing.md", "`method`") for name in re.findall(r'"(\w+)"', cells[0])
        }
        (allowed,) = re.findall(r"\{(.+?)\}", described(AGBMRegressor)["method"][0])
        assert described_ones == set(re.findall(r'"(\w+)"', allowed))

    def test_extras(self):
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        listed = {name for cells in rows("docs/start.md", "extra") for name in re.findall(r"`(\w+)`", cells[0])}
        assert listed == set(project["optional-dependencies"]) - {"bench", "docs", "test"}
        assert {re.split("[<>=]", need)[0] for need in project["dependencies"]} == {"numpy", "scikit-learn"}
        for name in ("README.md", "docs/start.md", "docs/limits.md", "CONTRIBUTING.md"):
            assert f"Python {project['requires-python'].strip('>=')} or later" in page(name), name


def page_part(name, begin, end):
    return (ROOT / name).read_text().partition(begin)[2].partition(end)[0]
