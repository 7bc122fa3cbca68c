"""Fits on blocks of rows: the same bits as on one table, for every cut."""

import pickle
import subprocess
import sys
import textwrap
from itertools import count, pairwise

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csc_array, csr_array
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression

from agbm import AGBMClassifier, AGBMRegressor, Batches, Checkpoint
from agbm._base import _native
from agbm._base.sums import step_of_sums, weight_step, whole_weights
from agbm._data import batches
from agbm._data.blocks import UNUSED, BlockReader, Places, gather
from agbm._data.rows import Given
from agbm._storage import container as model_file
from agbm._tree import bins as tree_bins
from agbm._tree.bins import Bins
from agbm.methods import Fading
from toys import stop_at
from variants import made

N = 1500

# Enough to be several: each member reads all blocks.
MEMBERS = {"n_members": 2}


def file_of(model, path):
    """The model file, without the time that training took."""
    model.history_["seconds"] = np.zeros_like(model.history_["seconds"])
    model.save(path)
    stored = path.read_bytes()
    assert model_file.parse(np.frombuffer(stored, np.uint8)).kind == "model"
    return stored


@pytest.fixture
def same_bits(tmp_path):
    def check(one, other):
        assert file_of(one, tmp_path / "one") == file_of(other, tmp_path / "other")
        assert one.fingerprint_ == other.fingerprint_

    return check


def rows_of(table, begin, end):
    return table.iloc[begin:end] if isinstance(table, (pd.DataFrame, pd.Series)) else table[begin:end]


def batches_of(cuts, *tables, **options):
    """Batches between some places, which may be the same."""
    ends = [0, *sorted(cuts), len(tables[-1])]

    def make():
        for begin, end in pairwise(ends):
            parts = tuple(rows_of(table, begin, end) for table in tables)
            yield parts if len(parts) > 1 else parts[0]

    return Batches(make, **options)


CUTS = {"one": [], "uneven": [0, 1, 7, 7, 400, 1499, 1500], "fifty": sorted(range(0, N, 30))}
cuts = pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)


def numbers(seed=0, n=N):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 4))
    y = X[:, 0] + np.sin(3 * X[:, 1]) + random.normal(size=n) / 4
    X[random.random(X.shape) < 0.1] = np.nan
    return X, y


def mixed(seed=0, n=N, n_many=600):
    """Numbers, whole numbers, text and many categories."""
    random = np.random.default_rng(seed)
    colour, many = random.choice(["red", "green", "blue"], n), random.integers(0, n_many, n)
    frame = pd.DataFrame({"number": random.normal(size=n), "count": random.integers(0, 9, n), "colour": colour})
    frame["many"] = pd.Categorical([f"id {i}" for i in many])
    y = frame["number"] + (colour == "red") + np.sin(many) + random.normal(size=n) / 4
    frame.loc[random.random(n) < 0.1, "number"] = np.nan
    frame.loc[random.random(n) < 0.1, "colour"] = None
    return frame, y.to_numpy()


@pytest.mark.slow
class TestSameBits:
    @pytest.mark.parametrize("early_stopping", [False, True])
    def test_regression(self, same_bits, early_stopping):
        X, y = numbers()
        model = AGBMRegressor(max_iter=15, early_stopping=early_stopping, n_iter_no_change=3, **MEMBERS)
        expected = clone(model).fit(X, y)
        for cut in CUTS.values():
            same_bits(expected, clone(model).fit(batches_of(cut, X, y)))
        same_bits(expected, clone(model).fit(batches_of(CUTS["uneven"], X), y))

    @pytest.mark.parametrize("n_classes", [2, 3])
    @pytest.mark.parametrize("class_weight", [None, "balanced", {0: 0.0}])
    def test_classification(self, same_bits, n_classes, class_weight):
        if n_classes == 2 and class_weight == {0: 0.0}:
            class_weight = {0: 0.3}
        X, y = numbers()
        labels = np.digitize(y, [0.0, 1.0][: n_classes - 1])
        model = AGBMClassifier(max_iter=8, early_stopping=True, class_weight=class_weight, **MEMBERS)
        same_bits(clone(model).fit(X, labels), clone(model).fit(batches_of(CUTS["uneven"], X, labels)))

    @cuts
    def test_classes_of_text(self, same_bits, cut):
        X, y = numbers()
        words = np.array(["a", "b", "c"])[np.digitize(y, [0.0, 1.0])]
        model = AGBMClassifier(max_iter=8, **MEMBERS)
        same_bits(clone(model).fit(X, words), clone(model).fit(batches_of(cut, X, words)))

    @pytest.mark.parametrize("kind", ["whole", "real", "zeros"])
    @pytest.mark.parametrize("early_stopping", [False, True])
    def test_weights_and_categories(self, same_bits, kind, early_stopping):
        frame, y = mixed()
        random = np.random.default_rng(1)
        weight = random.integers(0, 4, N).astype(float) if kind == "whole" else random.random(N) * 10.0
        weight[::3] = 0.0 if kind == "zeros" else weight[::3]
        model = AGBMRegressor(max_iter=8, early_stopping=early_stopping, **MEMBERS)
        expected = clone(model).fit(frame, y, weight)
        for cut in CUTS.values():
            same_bits(expected, clone(model).fit(batches_of(cut, frame, y, weight)))
        same_bits(expected, clone(model).fit(batches_of(CUTS["uneven"], frame), y, weight))

    @settings(max_examples=settings.default.max_examples // 4)
    @given(
        st.lists(st.integers(0, N), max_size=50),
        st.sampled_from(["fading", "gbm", "vagbm", "agbm", "agbmr"]),
        st.booleans(),
        st.integers(0, 99),
    )
    def test_every_cut(self, tmp_path_factory, cut, method, weighted, seed):
        frame, y = mixed(seed, n_many=300)
        weight = np.random.default_rng(seed).exponential(size=N) if weighted else None
        parts = (frame, y) if weight is None else (frame, y, weight)
        model = AGBMRegressor(
            method=made(method, dropout=0.2), max_iter=5, early_stopping=True, subsample=0.7, max_bins=20, **MEMBERS
        )
        folder = tmp_path_factory.mktemp("cut")
        one = file_of(clone(model).fit(frame, y, weight), folder / "one")
        assert one == file_of(clone(model).fit(batches_of(cut, *parts)), folder / "other")

    @pytest.mark.parametrize("method", ["fading", "gbm", "vagbm", "agbm", "agbmr"])
    @pytest.mark.parametrize("shared_structure", [False, True])
    def test_methods(self, same_bits, method, shared_structure):
        frame, y = mixed()
        labels = np.digitize(y, [0.0, 1.0])
        model = AGBMClassifier(
            method=made(method, shared_structure=shared_structure, dropout=0.3),
            max_iter=6,
            subsample=0.5,
            colsample_bytree=0.5,
            colsample_bynode=0.7,
            early_stopping=True,
            **MEMBERS,
        )
        same_bits(clone(model).fit(frame, labels), clone(model).fit(batches_of(CUTS["uneven"], frame, labels)))

    @pytest.mark.parametrize("multi_strategy", ["one_output_per_tree", "multi_output_tree"])
    def test_several_outputs(self, same_bits, multi_strategy):
        frame, y = mixed()
        both = np.column_stack([y, -(y**2)])
        model = AGBMRegressor(max_iter=6, method=Fading(dropout=0.3), multi_strategy=multi_strategy, **MEMBERS)
        expected = clone(model).fit(frame, both)
        same_bits(expected, clone(model).fit(batches_of(CUTS["uneven"], frame), both))
        same_bits(expected, clone(model).fit(batches_of(CUTS["uneven"], frame, both)))

    @pytest.mark.parametrize(
        "convert",
        [
            lambda X: X.astype(np.float32),
            lambda X: pd.DataFrame(X, columns=list("abcd")),
            lambda X: pl.DataFrame(X, schema=list("abcd")),
            lambda X: pa.table({name: X[:, f] for f, name in enumerate("abcd")}),
            lambda X: csr_array(np.nan_to_num(X) * (np.abs(np.nan_to_num(X)) > 0.5)),
        ],
        ids=["float32", "pandas", "polars", "arrow", "sparse"],
    )
    def test_tables_of_every_kind(self, same_bits, convert):
        X, y = numbers()
        table = convert(X)
        model = AGBMRegressor(max_iter=8, method=Fading(dropout=0.2), **MEMBERS)
        batched = Batches(lambda: (table[b:e] for b, e in [(0, 0), (0, 3), (3, 999), (999, N)]))
        same_bits(clone(model).fit(table, y), clone(model).fit(batched, y))

    def test_types_that_differ_between_blocks(self, same_bits):
        """As in files of a table that were written separately."""
        frame, y = mixed()
        frame["whole"] = np.arange(N) % 5
        frame["wide"] = np.arange(N) / 3
        expected = AGBMRegressor(max_iter=8, categorical_features=["colour", "many", "whole"]).fit(
            frame.astype({"whole": float, "wide": np.float32}), y
        )

        def make():
            first, second = frame.iloc[:700].copy(), frame.iloc[700:].copy()
            first["many"] = first["many"].cat.remove_unused_categories()
            second["many"] = second["many"].astype(object)
            second["whole"] = second["whole"].astype(float)
            first["wide"] = first["wide"].astype(np.float32)
            second["wide"] = second["wide"].astype(np.float32).astype(float)
            empty = frame.iloc[:0].astype(object)
            yield from (empty, first, second, empty)

        model = AGBMRegressor(max_iter=8, categorical_features=["colour", "many", "whole"]).fit(Batches(make), y)
        same_bits(expected, model)

    def test_text_column_without_values_in_a_block(self, same_bits):
        frame, y = mixed()
        frame.loc[: N // 2 - 1, "colour"] = None

        def make():
            first = frame.iloc[: N // 2].copy()
            first["colour"] = first["colour"].astype(float)
            yield from (first, frame.iloc[N // 2 :])

        same_bits(AGBMRegressor(max_iter=8).fit(frame, y), AGBMRegressor(max_iter=8).fit(Batches(make), y))

    def test_thresholds_from_a_sample_of_rows(self, same_bits, monkeypatch):
        monkeypatch.setattr(tree_bins, "MAX_SAMPLE", 300)
        X, y = numbers()
        weight = np.random.default_rng(0).random(N)
        model = AGBMRegressor(max_iter=8, early_stopping=True, **MEMBERS)
        same_bits(clone(model).fit(X, y), clone(model).fit(batches_of(CUTS["fifty"], X, y)))
        same_bits(clone(model).fit(X, y, weight), clone(model).fit(batches_of(CUTS["fifty"], X, y, weight)))

    @pytest.mark.parametrize("weighted", [False, True])
    def test_validation_rows(self, same_bits, weighted):
        frame, y = mixed()
        other, y_other = mixed(1)
        weight = np.random.default_rng(0).random(N) if weighted else None
        model = AGBMRegressor(max_iter=15, n_iter_no_change=3, **MEMBERS)
        expected = clone(model).fit(frame, y, weight, other, y_other)
        for cut in CUTS.values():
            same_bits(expected, clone(model).fit(batches_of(cut, frame), y, weight, batches_of(cut, other), y_other))
        cut = CUTS["uneven"]
        same_bits(expected, clone(model).fit(batches_of(cut, frame), y, weight, other, y_other))
        same_bits(expected, clone(model).fit(batches_of(cut, frame), y, weight, batches_of([9], other, y_other)))

    @pytest.mark.parametrize("early_stopping", [False, True])
    def test_init_model(self, early_stopping):
        X, y = numbers()
        init = FrozenEstimator(HistGradientBoostingRegressor(max_iter=5).fit(X, y))
        model = AGBMRegressor(max_iter=8, init=init, early_stopping=early_stopping)
        expected, blocks = clone(model).fit(X, y), clone(model).fit(batches_of(CUTS["uneven"], X, y))
        assert np.array_equal(expected.predict(X), blocks.predict(X))
        labels = (y > 0).astype(int)
        init = FrozenEstimator(HistGradientBoostingClassifier(max_iter=5).fit(X, labels))
        model = AGBMClassifier(max_iter=8, init=init)
        expected, blocks = clone(model).fit(X, labels), clone(model).fit(batches_of(CUTS["uneven"], X, labels))
        assert np.array_equal(expected.predict_proba(X), blocks.predict_proba(X))

    def test_bins_in_files(self, same_bits, tmp_path):
        frame, y = mixed()
        model = AGBMRegressor(max_iter=8, early_stopping=True, **MEMBERS)
        expected = clone(model).fit(frame, y)
        folder = tmp_path / "bins"
        folder.mkdir()
        for options in ({}, {"folder": folder}, {"folder": str(folder)}):
            same_bits(expected, clone(model).fit(batches_of(CUTS["uneven"], frame, y, bins="mmap", **options)))
        assert not list(folder.iterdir())


@pytest.mark.slow
class TestResuming:
    @pytest.mark.parametrize("dropout", [0.0, 0.3])
    @pytest.mark.parametrize("method", ["fading", "agbm"])
    def test_warm_start(self, same_bits, dropout, method):
        frame, y = mixed()
        settings = {"method": made(method, dropout=dropout), **MEMBERS}
        whole = AGBMRegressor(max_iter=12, **settings).fit(frame, y)
        model = AGBMRegressor(max_iter=5, warm_start=True, **settings)
        model.fit(batches_of([100], frame, y)).set_params(max_iter=12).fit(batches_of(CUTS["fifty"], frame, y))
        model.set_params(warm_start=False)
        assert np.array_equal(model.predict(frame), whole.predict(frame))
        assert np.array_equal(model.history_["train_loss"], whole.history_["train_loss"])

    def test_warm_start_with_other_rows(self):
        X, y = numbers()
        model = AGBMRegressor(max_iter=5, warm_start=True).fit(batches_of([100], X, y))
        with pytest.raises(ValueError, match=r"feature \d has other bins than in the run to resume"):
            model.set_params(max_iter=8).fit(batches_of([100], X + 1.0, y))

    @pytest.mark.parametrize("early_stopping", [False, True])
    def test_checkpoint(self, tmp_path, early_stopping):
        frame, y = mixed()
        model = AGBMRegressor(max_iter=12, early_stopping=early_stopping, method=Fading(dropout=0.2), **MEMBERS)
        whole = clone(model).fit(frame, y)
        saved = Checkpoint(tmp_path / "run", every=2)
        with pytest.raises(KeyboardInterrupt):
            clone(model).set_params(callbacks=[saved, stop_at(7)]).fit(batches_of(CUTS["uneven"], frame, y))
        seen = []
        resumed = clone(model).set_params(callbacks=[saved, seen.append]).fit(batches_of(CUTS["fifty"], frame, y))
        assert seen[0].iteration == 7
        assert np.array_equal(resumed.predict(frame), whole.predict(frame))
        assert np.array_equal(resumed.history_["validation_loss"], whole.history_["validation_loss"], equal_nan=True)

    def test_checkpoint_of_other_data(self, tmp_path):
        frame, y = mixed()
        model = AGBMRegressor(max_iter=4, callbacks=[Checkpoint(tmp_path / "run", every=2)])
        model.fit(batches_of([100], frame, y))
        model.fit(batches_of([200, 300], frame, y))
        others = {
            "labels": (frame, y + 1.0),
            "numbers": (frame.assign(number=frame["number"] + 1.0), y),
            "categories": (frame.assign(colour=frame["colour"].fillna("grey")), y),
            "names": (frame.rename(columns={"count": "counts"}), y),
            "weights": (frame, y, np.arange(N) + 0.5),
        }
        for other in others.values():
            with pytest.raises(ValueError, match="checkpoint of a run with other data"):
                model.fit(batches_of([100], *other))


class TestDatasets:
    @pytest.fixture
    def folder(self, tmp_path):
        """Parquet files of uneven lengths, one of them empty, with labels, weights and dictionaries of their own."""
        frame, y = mixed()
        table = frame.assign(label=y, weight=np.arange(N) % 3 + 0.5)
        for i, (begin, end) in enumerate([(0, 10), (10, 10), (10, 1100), (1100, N)]):
            part = table.iloc[begin:end].copy()
            part["many"] = part["many"].cat.remove_unused_categories()
            part = pa.Table.from_pandas(part, preserve_index=False)
            part = part.set_column(3, "many", part["many"].cast(pa.dictionary(pa.int32(), pa.large_string())))
            pq.write_table(part, tmp_path / f"{i}.parquet", row_group_size=99)
        return tmp_path

    @pytest.mark.slow
    @pytest.mark.parametrize("n_rows", [40, 100_000])
    def test_parquet(self, same_bits, monkeypatch, folder, n_rows):
        monkeypatch.setattr(batches, "BLOCK_VALUES", 6 * n_rows)
        frame, y = mixed()
        weight = np.arange(N) % 3 + 0.5
        dataset = ds.dataset(folder)
        plain = frame.assign(weight=weight)
        model = AGBMRegressor(max_iter=8, **MEMBERS)
        same_bits(clone(model).fit(plain, y), clone(model).fit(dataset, "label"))
        expected = clone(model).fit(frame, y, weight)
        same_bits(expected, clone(model).fit(dataset, "label", "weight"))
        same_bits(expected, clone(model).fit(Batches(dataset, bins="mmap"), "label", "weight"))
        labels = frame.assign(label=y)
        same_bits(clone(model).fit(labels, y, weight), clone(model).fit(dataset, y, "weight"))
        both = labels.assign(weight=weight)
        same_bits(clone(model).fit(both, y, weight), clone(model).fit(dataset, y, weight))

    @pytest.mark.slow
    def test_validation(self, same_bits, folder):
        frame, y = mixed()
        table = ds.dataset(folder).to_table()
        expected = AGBMRegressor(max_iter=8).fit(frame, y, None, frame, y)
        dataset = ds.dataset(table.drop_columns(["weight"]))
        same_bits(expected, AGBMRegressor(max_iter=8).fit(dataset, "label", None, dataset, "label"))
        same_bits(expected, AGBMRegressor(max_iter=8).fit(dataset, "label", None, frame, y))

    def test_hive_partitioned_folders(self, same_bits, tmp_path):
        frame, y = mixed()
        table = pa.Table.from_pandas(frame.assign(label=y), preserve_index=False)
        ds.write_dataset(table, tmp_path / "rows", format="parquet", partitioning=["count"], partitioning_flavor="hive")
        dataset = ds.dataset(tmp_path / "rows", partitioning="hive")
        whole = dataset.to_table().to_pandas()
        assert list(whole.columns) == ["number", "colour", "many", "label", "count"]
        expected = AGBMRegressor(max_iter=8).fit(whole.drop(columns="label"), whole["label"].to_numpy())
        same_bits(expected, AGBMRegressor(max_iter=8).fit(dataset, "label"))

    def test_classes_in_a_dictionary_and_arrow_files(self, same_bits, tmp_path):
        frame, y = mixed()
        labels = np.array(["low", "high"], dtype=object)[(y > 0).astype(int)]
        table = pa.Table.from_pandas(frame).append_column("label", pa.array(labels).dictionary_encode())
        with pa.OSFile(str(tmp_path / "rows.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        dataset = ds.dataset(tmp_path / "rows.arrow", format="ipc")
        expected = AGBMClassifier(max_iter=8).fit(frame, labels)
        same_bits(expected, AGBMClassifier(max_iter=8).fit(dataset, "label"))
        some = dataset.filter(ds.field("count") > 4)
        rows = (frame["count"] > 4).to_numpy()
        same_bits(
            AGBMClassifier(max_iter=8).fit(frame[rows], labels[rows]), AGBMClassifier(max_iter=8).fit(some, "label")
        )

    def test_errors(self, folder):
        dataset = ds.dataset(folder)
        model = AGBMRegressor(max_iter=3)
        with pytest.raises(ValueError, match=r"y='price': the dataset has no such column; its columns are \['number'"):
            model.fit(dataset, "price")
        with pytest.raises(ValueError, match="sample_weight='price': the dataset has no such column"):
            model.fit(dataset, "label", "price")
        with pytest.raises(ValueError, match="y=None: pass the name of the column with the labels"):
            model.fit(dataset)
        with pytest.raises(ValueError, match="X_val: y='price': the dataset has no such column"):
            model.fit(dataset, "label", None, dataset, "price")
        with pytest.raises(ValueError, match="X_val: X has 4 columns, X has 5"):
            model.fit(dataset, "label", None, mixed()[0], mixed()[1])
        with pytest.raises(ValueError, match="the dataset has no columns besides"):
            model.fit(ds.dataset(pa.table({"y": [1.0, 2.0]})), "y")
        with pytest.raises(ValueError, match="y has 3 rows, the blocks of X have 1500"):
            model.fit(dataset, [1.0, 2.0, 3.0])


@pytest.mark.parametrize("hole", [None, np.nan])
def test_numbers_that_are_all_missing_in_a_block(same_bits, hole):
    """A column of None is of no type; what other blocks have decides."""
    X, y = numbers()
    whole = pd.DataFrame(X[:, :3], columns=list("abc"))
    first, second = whole.iloc[:400].copy(), whole.iloc[400:]
    whole.iloc[:400, 1] = np.nan
    first["b"] = pd.Series([hole] * 400, dtype=object)
    batches = Batches(lambda: iter([(first, y[:400]), (second, y[400:])]))
    same_bits(AGBMRegressor(max_iter=5).fit(whole, y), AGBMRegressor(max_iter=5).fit(batches))


def changing(read):
    """Batches of read(0) in the first pass, of read(1) in the second one and so on."""
    passes = count()
    return Batches(lambda: iter(read(next(passes))))


def with_text(X):
    table = pd.DataFrame(X[:, :2], columns=["a", "b"])
    table["kind"] = [None if i % 7 == 0 else f"k{i % 5}" for i in range(len(X))]
    return table


KINDS = {
    "array": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "lists": lambda X: X.tolist(),
    "objects": lambda X: with_text(X).to_numpy(dtype=object),
    "pandas": with_text,
    "categories": lambda X: with_text(X).astype({"kind": "category"}),
    "nullable": lambda X: with_text(X).convert_dtypes(),
    "polars": lambda X: pl.from_pandas(with_text(X)),
    "polars categories": lambda X: pl.from_pandas(with_text(X).astype({"kind": "category"})),
    "arrow": lambda X: pa.Table.from_pandas(with_text(X)),
    "arrow dictionary": lambda X: pa.Table.from_pandas(with_text(X).astype({"kind": "category"})),
    "csr": csr_array,
    "csc": csc_array,
}


class TestPasses:
    """Every pass must give the same rows."""

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda X, y, w, k: (X[::-1], y[::-1], w[::-1]) if k else (X, y, w), "y and sample_weight and X have"),
            (lambda X, y, w, k: (X + k, y, w), "X has"),
            (lambda X, y, w, k: (X, np.append(y[:-1], y[-1] + k), w), "y has"),
            (lambda X, y, w, k: (X, y, w + k), "sample_weight has"),
        ],
        ids=["order", "features", "last label", "weights"],
    )
    def test_rows_that_change(self, change, message):
        X, y = numbers()
        w = np.linspace(1.0, 2.0, len(y))
        source = changing(lambda k: [(X[:50], y[:50], w[:50]), change(X[50:], y[50:], w[50:], k)])
        with pytest.raises(ValueError, match=f"^block 1: {message} different values than in the previous pass"):
            AGBMRegressor(max_iter=3).fit(source)

    def test_validation_rows_that_change(self):
        X, y = numbers()
        stable = Batches(lambda: iter([(X, y)]))
        with pytest.raises(ValueError, match=r"^X_val: block 0: y has different values than in the previous pass"):
            AGBMRegressor(max_iter=3).fit(stable, X_val=changing(lambda k: [(X, y + k)]))
        AGBMRegressor(max_iter=3).fit(stable, X_val=stable)

    def test_labels_that_are_text(self):
        X, y = numbers()
        labels = np.where(y > 0, "a", "b").astype(object)
        with pytest.raises(ValueError, match="block 0: y has different values"):
            AGBMClassifier(max_iter=3).fit(changing(lambda k: [(X, np.roll(labels, k))]))
        AGBMClassifier(max_iter=3).fit(changing(lambda k: [(X, labels.copy())]))

    def test_sources_that_shuffle(self):
        X, y = numbers()

        def shuffled(seed):
            order = np.random.default_rng(seed).permutation(len(y))
            return [(X[part], y[part]) for part in np.array_split(order, 3)]

        with pytest.raises(ValueError, match=r"block 0: y and X have different values .* fix the seed of a source"):
            AGBMRegressor(max_iter=3).fit(changing(shuffled))
        AGBMRegressor(max_iter=3).fit(changing(lambda k: shuffled(0)))

    def test_number_of_blocks_that_changes(self):
        X, y = numbers()
        with pytest.raises(ValueError, match=r"X has more blocks than in the previous pass \(1\)"):
            AGBMRegressor(max_iter=3).fit(changing(lambda k: [(X, y)] * (k + 1)))
        with pytest.raises(ValueError, match="X has 1 blocks, 2 in the previous pass"):
            AGBMRegressor(max_iter=3).fit(changing(lambda k: [(X, y)] * (2 - k)))

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
    def test_tables_of_all_kinds(self, kind):
        X, y = numbers()
        empty = kind(X)[:0] if not isinstance(kind(X), (list, csc_array)) else None
        parts = [X[:700], X[700:]]

        def read(k):
            tables = [kind(part.copy()) for part in parts]
            return [(X, y) for X, y in zip(tables, (y[:700], y[700:]), strict=True)]

        AGBMRegressor(max_iter=3).fit(changing(read))
        if empty is not None:
            AGBMRegressor(max_iter=3).fit(changing(lambda k: [(empty, y[:0]), *read(k)]))
        with pytest.raises(ValueError, match="block 0: X has different values"):
            AGBMRegressor(max_iter=3).fit(changing(lambda k: [(kind(np.roll(X, k, axis=0)), y)]))

    def test_categories_that_change(self):
        X, y = numbers()
        table = with_text(X)
        with pytest.raises(ValueError, match="block 0: X has different values"):
            AGBMRegressor(max_iter=3).fit(changing(lambda k: [(table.assign(kind=np.roll(table["kind"], k)), y)]))


class TestErrors:
    def fit(self, *tables, y=None, weight=None, model=None, **validation):
        return (model or AGBMRegressor(max_iter=3)).fit(Batches(lambda: iter(tables)), y, weight, **validation)

    def test_iterators_that_can_be_read_once(self):
        X, y = numbers()
        with pytest.raises(TypeError, match=r"can be read only once, .* pass agbm.Batches\(make\)"):
            AGBMRegressor().fit(part for part in [(X, y)])
        with pytest.raises(TypeError, match="can be read only once"):
            AGBMRegressor().fit(iter([X]), y)
        with pytest.raises(TypeError, match=r"source=\[1\] must be a function"):
            Batches([1])
        once = iter([(X, y)])
        with pytest.raises(ValueError, match=r"X has 0 blocks, 1 in the previous pass.*return a new iterator"):
            AGBMRegressor(max_iter=3).fit(Batches(lambda: once))
        sizes = iter([5, 5, 6, 6])
        with pytest.raises(ValueError, match="block 0: X has 6 rows, 5 in the previous pass"):
            AGBMRegressor(max_iter=3, early_stopping=False).fit(
                Batches(lambda: [(X[:n], y[:n]) for n in [next(sizes)]])
            )

    def test_options(self, tmp_path):
        with pytest.raises(ValueError, match="bins='disk' must be 'memory' or 'mmap'"):
            Batches(list, bins="disk")
        with pytest.raises(ValueError, match=r"folder='x' needs bins='mmap'; got bins='memory'"):
            Batches(list, folder="x")
        with pytest.raises(FileNotFoundError, match="there is no such folder"):
            Batches(list, bins="mmap", folder=tmp_path / "none")
        assert repr(Batches(list)) == "Batches(<class 'list'>, bins='memory', folder=None)"

    def test_columns(self):
        X, y = numbers()
        a, b = pd.DataFrame({"a": y, "b": y}), pd.DataFrame({"b": y, "a": y})
        with pytest.raises(
            ValueError, match=r"block 1: column 0 of X is 'b', in block 0 it is 'a' \(2 columns differ\)"
        ):
            self.fit((a, y), (b, y))
        with pytest.raises(ValueError, match="block 2: X has 3 columns, block 0 has 4"):
            self.fit((X, y), (X[:0], y[:0]), (X[:, :3], y))
        with pytest.raises(ValueError, match="block 1: X has no column names, block 0 has some"):
            self.fit((a, y), (a.to_numpy(), y))
        with pytest.raises(ValueError, match="block 1: X has column names, block 0 has none"):
            self.fit((a.to_numpy(), y), (a, y))
        with pytest.raises(ValueError, match="X_val: X has 3 columns, X has 4"):
            self.fit((X, y), X_val=X[:, :3], y_val=y)

    def test_text_where_numbers_were(self):
        _, y = numbers()
        a, b = pd.DataFrame({"a": y}), pd.DataFrame({"a": np.where(y > 0, "high", "low")})
        with pytest.raises(ValueError, match="block 0: column 0 of X has numbers, but other blocks have text"):
            self.fit((a, y), (b, y))
        with pytest.raises(ValueError, match="block 0: X: column 'a' has dates in other rows"):
            self.fit((a, y), (pd.DataFrame({"a": pd.to_datetime(y)}), y))
        words = pd.DataFrame({"a": ["x"] * N})
        with pytest.raises(ValueError, match="X_val: X: column 'a' must contain numbers"):
            self.fit((a, y), X_val=words, y_val=y)
        with pytest.raises(ValueError, match="X_val: block 1: X: column 'a' must contain numbers"):
            self.fit((a, y), X_val=batches_of([100], pd.concat([a.iloc[:100], words.iloc[100:]]), y))

    def test_labels(self):
        X, y = numbers()
        with pytest.raises(ValueError, match=r"block 1: y has shape \(3,\), X has 1500 rows"):
            self.fit((X, y), (X, y[:3]))
        with pytest.raises(ValueError, match=r"block 1: sample_weight has shape \(\), X has 1500 rows"):
            self.fit((X, y, y), (X, y, 1.0))
        with pytest.raises(ValueError, match="block 1: y is missing, but other blocks have it"):
            self.fit((X, y), X)
        with pytest.raises(ValueError, match=r"block 1: y has type .*, other blocks have float64"):
            self.fit((X, y), (X, y.astype(str)))
        with pytest.raises(ValueError, match=r"block 1: y has shape \(1500, 2\); other blocks have \(\) per row"):
            self.fit((X, y), (X, np.column_stack([y, y])))
        with pytest.raises(ValueError, match="y=None: pass the labels of all rows, or batches"):
            self.fit(X)
        with pytest.raises(ValueError, match="y has 3 rows, the blocks of X have 1500; they must be the same number"):
            self.fit(X, y=y[:3])
        with pytest.raises(ValueError, match="sample_weight has 3 rows, the blocks of X have 1500"):
            self.fit(X, y=y, weight=y[:3])
        with pytest.raises(TypeError, match="y='label': names of columns work with datasets only"):
            self.fit(X, y="label")
        with pytest.raises(ValueError, match="y has missing labels"):
            self.fit((X, np.array([None, "a", "b"] * 500)), model=AGBMClassifier())
        with pytest.raises(ValueError, match="NaN"):
            self.fit((X, np.where(y > 0, y, np.nan)))
        with pytest.raises(ValueError, match="y_val has labels"):
            self.fit((X, (y > 0) * 1), model=AGBMClassifier(), X_val=X, y_val=np.full(N, 7))
        with pytest.raises(ValueError, match="y_val has 3 rows, the tables of X have 1500"):
            self.fit((X, y), X_val=X, y_val=y[:3])

    def test_batches(self):
        X, y = numbers()
        with pytest.raises(ValueError, match="block 1: a batch must be X"):
            self.fit((X, y), (X, y, y, y, y))
        with pytest.raises(ValueError, match="block 0: X must be a table with rows and columns, got ndarray"):
            self.fit((y, y))
        with pytest.raises(ValueError, match="X has no rows in its 2 blocks"):
            self.fit((X[:0], y[:0]), (X[:0], y[:0]))
        with pytest.raises(ValueError, match="X has no rows in its 0 blocks"):
            self.fit()

    def test_learners(self):
        X, y = numbers()
        with pytest.raises(ValueError, match=r"learner=LinearRegression\(\) needs all rows at once"):
            self.fit((X, y), model=AGBMRegressor(method=Fading(learner=LinearRegression())))

    def test_failed_fit_keeps_the_model(self):
        X, y = numbers()
        model = AGBMRegressor(max_iter=3).fit(X, y)
        before = model.predict(X)
        with pytest.raises(ValueError, match="block 0: column 0 of X has numbers"):
            self.fit((X[:, :2], y), (np.full((N, 2), "text"), y), model=model)
        assert np.array_equal(model.predict(X), before)

    @pytest.mark.slow
    def test_full_disk_raises_os_error(self, tmp_path):
        """The limit of a file's size does what a full disk does: there is an error and no signal."""
        script = f"""
            import resource, signal, numpy as np
            from agbm import AGBMRegressor, Batches
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
            X = np.random.default_rng(0).random((1000, 3))
            try:
                AGBMRegressor().fit(Batches(lambda: [(X, X[:, 0])], bins="mmap", folder={str(tmp_path)!r}))
            except OSError as error:
                print(error.filename, error.strerror)
        """
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == f"{tmp_path} File too large"
        assert not list(tmp_path.iterdir())


class TestParts:
    @given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=200), st.randoms())
    def test_sums_of_steps_have_no_order(self, values, random):
        numbers = np.array(values)
        step = step_of_sums(float(np.abs(numbers).sum()))
        whole = np.rint(numbers / step)
        shuffled = whole.tolist()
        random.shuffle(shuffled)
        assert sum(shuffled) == whole.sum() == sum(whole.tolist())
        assert np.allclose(whole * step, numbers, rtol=0, atol=float(np.abs(numbers).sum()) * 2.0**-50 + 1e-300)

    def test_whole_numbers_and_small_weights_stay(self):
        weight = np.array([3.0, 0.0, 1e9, 7.0])
        step = weight_step(weight)
        assert np.array_equal(whole_weights(weight, step) * step, weight)
        small = np.array([1e-300, 0.0, 1.0])
        assert whole_weights(small, weight_step(small)).tolist()[:2] == [1.0, 0.0]
        assert step_of_sums(0.0) > 0.0
        assert step_of_sums(np.inf) == 1.0

    def test_places(self):
        places = Places([2, 0, 3], np.array([4, 0, 2]), 2)
        assert [part.tolist() for part in places.of_blocks()] == [[1, UNUSED], [], [2, UNUSED, 0]]
        assert [part.tolist() for part in places.training_rows(None)] == [[1, 0], [], [0, 0, 1]]
        assert [part.tolist() for part in places.training_rows(np.array([0.5, 2.0]))] == [
            [2.0, 0.0],
            [],
            [0.0, 0.0, 0.5],
        ]

    def test_readers_and_parts_can_be_pickled(self):
        frame, y = mixed()
        model = AGBMRegressor(max_iter=3, callbacks=[lambda record: None]).fit(frame, y)
        X = model.model_.reader.numbers(frame)
        found = Bins.from_data(X, 255, None, model.model_.reader.categories.counts(4), y[np.newaxis])
        reader = pickle.loads(pickle.dumps(BlockReader(model.model_.reader.numbers, found)))
        matrix = reader.bins.matrix(N)
        block = batches._read_batches(lambda: [frame]).__next__()
        rows = reader.numbers(block, np.ones(N, dtype=bool))
        reader.bins.fill(matrix, rows, np.arange(N, dtype=np.uint32)[::-1].copy(), 1)
        assert np.array_equal(matrix.codes()[::-1], found.encode(X, 1).codes())
        parts = gather(*batches.blocks_of(Given(Batches(lambda: [(frame, y)]), None)))
        assert pickle.loads(pickle.dumps(parts)).total == N

    def test_predictions_from_codes(self):
        """Trees predict the same values from codes as from the numbers."""
        frame, y = mixed()
        for strategy in ("one_output_per_tree", "multi_output_tree"):
            model = AGBMRegressor(max_iter=5, method="agbm", multi_strategy=strategy, init="zero")
            model.fit(frame, np.column_stack([y, y**2]))
            X = model.model_.reader.numbers(frame)
            found = Bins.from_data(X, 255, None, model.model_.reader.categories.counts(4), np.stack([y, y**2]), 3)
            matrix = found.encode(X, 1)
            for forest in model.model_.models:
                codes = found.left_codes(forest)
                assert np.array_equal(forest.values_on(matrix, codes, 2), forest.predict(X, 1))

    def test_arguments_of_predictions_from_codes_are_checked(self):
        matrix = _native.BinnedMatrix(5, [3], [0])
        X, y = np.arange(40.0)[:, np.newaxis], np.arange(40.0)
        forest = AGBMRegressor(max_iter=1, min_samples_leaf=1).fit(X, y).model_.models[0]
        good = [forest.roots, forest.first_column, forest.nodes.view(np.uint8)]
        codes = np.zeros((len(forest.nodes), 4), dtype=np.uint64)
        bad_feature, bad_child = forest.nodes.copy(), forest.nodes.copy()
        bad_feature["feature"][0], bad_child["left"][0] = 1, 0
        for arguments, message in [
            ((*good, codes[1:], forest.value, 1), "left_codes"),
            ((*good[:2], good[2][1:], codes, forest.value, 1), "nodes: must have as many"),
            ((*good[:2], bad_feature.view(np.uint8), codes, forest.value, 1), "no such feature"),
            ((*good[:2], bad_child.view(np.uint8), codes, forest.value, 1), "children must follow their parents"),
            ((forest.roots + 99, *good[1:], codes, forest.value, 1), "roots"),
            ((good[0], forest.first_column + 1, good[2], codes, forest.value, 1), "first_column"),
            ((good[0], forest.first_column[1:], good[2], codes, forest.value, 1), "first_column"),
        ]:
            with pytest.raises(ValueError, match=message):
                matrix.values(*arguments, 1)
        with pytest.raises(ValueError, match="rows: no such row"):
            matrix.fill(0, np.zeros((1, 1)), np.array([1.0, 2.0]), 1, np.array([5], dtype=np.uint32))
        with pytest.raises(ValueError, match="X: wrong number of rows"):
            matrix.fill(0, np.zeros((2, 1)), np.array([1.0, 2.0]), 1, np.array([4], dtype=np.uint32))


@pytest.mark.slow
def test_memory_is_proportional_to_the_bins():
    """300 MB of rows are never in memory at the same time."""
    script = """
        import resource, numpy as np
        from agbm import AGBMRegressor, Batches
        from agbm._tree import bins
        bins.MAX_SAMPLE = 25_000
        def make():
            for seed in range(60):
                X = np.random.default_rng(seed).random((5000, 125))
                yield X, X[:, 0]
        model = AGBMRegressor(n_members=1, max_iter=2, max_depth=2, early_stopping=False, n_jobs=1)
        model.fit(Batches(lambda: [next(iter(make()))]))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        model.fit(Batches(make))
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 150_000, "kB; 75 MB of bins, and two times 25 MB of a sample"


@pytest.mark.slow
def test_pyarrow_datasets_are_imported_only_when_needed():
    script = "import sys, agbm; print('pyarrow.dataset' in sys.modules)"  # scikit-learn may import the rest of pyarrow
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
