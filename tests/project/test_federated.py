"""Federated training by examples/federated.py: the pooled model bit for bit, from masked sums."""

import itertools
import pickle
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agbm import AGBMClassifier, AGBMRegressor
from agbm._base.sums import ExactSum
from agbm.losses import HalfSquaredError
from profiles import examples

SMALL = {"max_iter": 5, "max_depth": 3, "n_members": 1, "early_stopping": False}
CUTS = [0, 90, 250, 400]


@pytest.fixture(scope="module")
def example():
    """The module of the example, which processes of parties import as well."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[2] / "examples"))
        import federated

        yield federated


@pytest.fixture(scope="module")
def sums(example):
    import secure_sum

    return secure_sum


class Nearby:
    """A party of this process. What is sent travels as it does between processes."""

    def __init__(self, example, name, X, y):
        self.name = name
        self._example = example
        self._party = example.Party(X, y)

    def send(self, what, *arguments):
        arguments = pickle.loads(pickle.dumps(arguments))
        self._reply = pickle.dumps(self._example.answer_of(self._party, what, arguments))

    def receive(self):
        return pickle.loads(self._reply)


def aggregator_of(example, X, y, cuts=CUTS):
    pairs = itertools.pairwise(cuts)
    return example.Aggregator([Nearby(example, f"party {a}", X[a:b], y[a:b]) for a, b in pairs])


def table(n=400):
    """Numbers with missing values, both zeros, more values than bins, and a column without any value."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 6))
    X[:, 1] = np.round(X[:, 1], 1)
    X[rng.random(n) < 0.2, 2] = np.nan
    X[:, 3] = np.where(rng.random(n) < 0.5, np.where(rng.random(n) < 0.5, -0.0, 0.0), X[:, 3])
    X[:, 4] = np.nan
    X[rng.random(n) < 0.05, 5] = np.inf
    return X


def labels(kind, X):
    y = X[:, 0] + np.nan_to_num(X[:, 2]) + np.abs(X[:, 1])
    if kind == "numbers":
        return y
    return np.array(["no", "perhaps", "yes"])[np.searchsorted([0.5] if kind == "two" else [0.0, 1.2], y)]


def bytes_of(model, folder):
    """The bytes of the model file, without the digest and the profile of rows, which parties do not give."""
    model.model_ = replace(model.model_, origin=None, profile=None)
    model.save(folder / "model.agbm")
    return (folder / "model.agbm").read_bytes()


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("two", {}),
        ("three", {}),
        ("three", {"max_bins": 16, "colsample_bynode": 0.5}),
        ("numbers", {"subsample": 0.7}),
        ("numbers", {"loss": "absolute_error"}),
        ("numbers", {"method": "agbm"}),
    ],
)
def test_model_equals_the_pooled_one(example, kind, parameters, tmp_path):
    X = table()
    y = labels(kind, X)
    make = partial(AGBMRegressor if kind == "numbers" else AGBMClassifier, **SMALL | parameters)
    pooled = make().fit(X, y)
    assert pooled.n_trees_ > 0
    federated = example.fit(make(), aggregator_of(example, X, y))
    assert federated.model_.origin is None
    assert federated.model_.profile is None
    assert federated.fingerprint_ == pooled.fingerprint_
    assert bytes_of(federated, tmp_path) == bytes_of(pooled, tmp_path)


def test_a_sample_of_the_rows_for_thresholds(example, monkeypatch, tmp_path):
    monkeypatch.setattr("agbm._tree.bins.MAX_SAMPLE", 150)
    X = table()
    y = labels("two", X)
    pooled = AGBMClassifier(**SMALL, max_bins=20).fit(X, y)
    federated = example.fit(AGBMClassifier(**SMALL, max_bins=20), aggregator_of(example, X, y))
    assert bytes_of(federated, tmp_path) == bytes_of(pooled, tmp_path)


def sent_by(replies):
    """What the replies to an order contain of masked numbers."""
    for reply in replies:
        if hasattr(reply, "sums") and hasattr(reply, "largest"):
            yield list(reply.sums)
        elif getattr(reply, "contribution", None) is not None:
            yield [reply.contribution.value]
        else:
            yield [reply]


def test_the_aggregator_sees_masked_numbers_only(example, sums, monkeypatch, tmp_path):
    """Messages about the rows of one party look random, alone and summed with those of all others but one."""
    hidden, hide = [], sums.Masks.hide
    monkeypatch.setattr(sums.Masks, "hide", lambda self, value: hidden.append(value) or hide(self, value))
    X = table()
    y = labels("two", X)
    models, messages = [], []
    for _ in range(2):
        aggregator, seen, openly = aggregator_of(example, X, y), [], Counter()

        def watch(what, replies, seen=seen, openly=openly):
            for message in zip(*sent_by(replies), strict=True):
                if isinstance(message[0], sums.Masked):
                    seen.append(message)
                    continue
                kind = what if what != "step" else "found"
                if what == "step" and replies[0].contribution is not None:
                    kind = replies[0].contribution.merge.__name__
                openly[kind] += 1

        aggregator.watchers.append(watch)
        models.append(bytes_of(example.fit(AGBMClassifier(**SMALL), aggregator), tmp_path))
        messages.append(seen)
        # What is sent as it is, which docs/federated.md lists.
        assert set(openly) == {"outline", "gather", "found", "union", "max", "look", "hold"}
    assert len(hidden) == 3 * sum(map(len, messages))
    assert models[0] == models[1]

    def words(message):
        return [np.asarray(of.numbers, dtype=object) % 2**64 for of in message]

    first, again = ([number for message in seen for number in np.concatenate(words(message))] for seen in messages)
    assert len(first) == len(again) > 10_000
    assert sum(a == b for a, b in zip(first, again, strict=True)) <= 1
    assert_uniform(first)
    without_one = [sum(words(message)[:2]) % 2**64 for message in messages[0]]
    assert_uniform(np.concatenate(without_one))


def assert_uniform(numbers):
    """The bytes of numbers of 64 bits occur equally often; chi-square with 255 degrees of freedom."""
    counts = np.bincount(np.frombuffer(np.array(numbers, dtype=np.uint64).tobytes(), np.uint8), minlength=256)
    expected = counts.sum() / 256
    assert ((counts - expected) ** 2 / expected).sum() < 255 + 6 * np.sqrt(2 * 255)


def test_aggregator_keeps_nothing_about_rows(example):
    """Neither labels, nor features, nor keys are in what a party says about its rows."""
    X = table()
    party = example.Party(X, labels("two", X))
    outline = party.outline()
    assert (outline.n_rows, len(outline.y), len(outline.head)) == (len(X), 0, 0)
    failed = example.answer_of(party, "_block", ())
    assert "not an order" in str(failed.error)


@pytest.mark.slow
def test_a_party_that_leaves(example):
    """One in a real process, which is ended during training."""
    stays = Nearby(example, "hospital 1", *example.hospital(0))
    leaves = example.RemoteParty("hospital 2", partial(example.hospital, 1))

    def kill(record):
        if record.iteration == 2:
            leaves.process.kill()

    try:
        model = AGBMClassifier(**SMALL, callbacks=[kill])
        with pytest.raises(example.PartyLostError, match=r"hospital 2 has left\. The masks .* no longer cancel"):
            example.fit(model, example.Aggregator([stays, leaves]))
        assert not hasattr(model, "model_")
    finally:
        leaves.close()


def test_keys_are_used_once(example, sums):
    """Masks that were used twice would show how the numbers differ."""
    X = table(60)
    parties = [Nearby(example, "one", X, labels("two", X)), Nearby(example, "two", X, labels("two", X))]
    seen = []
    for _ in range(2):
        aggregator = example.Aggregator(parties)
        aggregator.watchers.append(lambda what, replies: seen.append(replies) if what == "tally" else None)
        example.fit(AGBMClassifier(**SMALL), aggregator)
    first, again = (seen[i][0].numbers for i in (0, len(seen) // 2))
    assert len(first) == len(again) == 6 * 2**example.BITS
    assert not (first == again).any()
    with pytest.raises(ValueError, match="new public keys"):
        aggregator.ask("agree", each=[(0, [4, 5]), (1, [4, 5])])


class CustomLoss(HalfSquaredError):
    """A loss whose constant needs all labels in one place."""


def test_unsupported_settings_raise(example):
    X = table()
    y, numbers = labels("two", X), labels("numbers", X)
    fit = example.fit
    with pytest.raises(ValueError, match="early_stopping=False"):
        fit(AGBMClassifier(max_iter=3), aggregator_of(example, X, y))
    with pytest.raises(ValueError, match="party 400 has no rows"):
        fit(AGBMClassifier(**SMALL), aggregator_of(example, X, y, [0, 400, 400]))
    with pytest.raises(ValueError, match="1 parties"):
        aggregator_of(example, X, y, [0, 400])
    with pytest.raises(ValueError, match="use class_weight=None"):
        fit(AGBMClassifier(**SMALL, class_weight="balanced"), aggregator_of(example, X, y))
    with pytest.raises(ValueError, match="not a sum"):
        fit(AGBMRegressor(**SMALL, loss=CustomLoss()), aggregator_of(example, X, numbers))
    with pytest.raises(ValueError, match=r"Columns \[1\] of X are categorical"):
        fit(AGBMClassifier(**SMALL, categorical_features=[1]), aggregator_of(example, X, y))
    frame = pd.DataFrame(X).assign(name="a")
    frame.columns = list("abcdefg")
    with pytest.raises(ValueError, match="numbers only"):
        fit(AGBMClassifier(**SMALL), aggregator_of(example, frame, y))


# Masks.


def masks_of(sums, n):
    own = [sums.new_secret() for _ in range(n)]
    public = [sums.public_key(secret) for secret in own]
    return [sums.Masks(i, secret, public) for i, secret in enumerate(own)]


@pytest.fixture(scope="module")
def four(sums):
    return masks_of(sums, 4)


INTEGERS = st.integers(-(2**60), 2**60)


def of_four(strategy):
    """A value for each of four parties."""
    return st.lists(strategy, min_size=4, max_size=4)


@examples(15)
@given(
    st.one_of(
        of_four(INTEGERS),
        of_four(st.lists(INTEGERS, min_size=6, max_size=6).map(lambda x: np.array(x).reshape(2, 3))),
        of_four(st.lists(st.integers(0, 2**50), min_size=3, max_size=3).map(lambda x: np.array(x, float))),
        of_four(st.integers(-(2**2100), 2**2100).map(ExactSum)),
    )
)
def test_totals_are_exact(sums, four, values):
    masked = [masks.hide(value) for masks, value in zip(four, values, strict=True)]
    total, expected = sums.sum_of(masked), sum(values[1:], values[0])
    assert type(total) is type(expected)
    assert np.array_equal(total, expected) if isinstance(total, np.ndarray) else total == expected
    with pytest.raises(RuntimeError, match="3 of 4 parties"):
        (masked[0] + masked[1] + masked[2]).total(4)


def test_infinite_numbers_are_not_hidden(sums, four):
    values = [[ExactSum(5), ExactSum(1, np.inf)], *[[ExactSum(-7), ExactSum(3)]] * 3]
    masked = [masks.hide(of) for masks, of in zip(four, values, strict=True)]
    assert sums.sum_of(masked) == [ExactSum(5 - 21), ExactSum(10, np.inf)]
    assert masked[0].not_finite.tolist() == [0.0, np.inf]


def test_masks_are_used_once(sums):
    here, there = masks_of(sums, 2)
    first, second = here.hide(3), here.hide(3)
    assert first.numbers[0] != second.numbers[0]
    with pytest.raises(RuntimeError, match="different messages"):
        second + there.hide(4)


@pytest.mark.parametrize("value", [0.5, "text", (1, 2), [1.0], np.array([0.5]), np.array([2.0**60]), np.array(["a"])])
def test_only_whole_numbers_are_masked(four, value):
    with pytest.raises(ValueError, match="whole numbers"):
        four[0].hide(value)


def test_the_group_of_the_key_exchange(sums):
    """Its modulus p is that of RFC 3526, and p and (p - 1) / 2 are prime."""

    def arctan_of_inverse(x, one):
        powers = itertools.takewhile(bool, (one // x ** (2 * n + 1) for n in itertools.count()))
        return sum((-1) ** n * (power // (2 * n + 1)) for n, power in enumerate(powers))

    one = 1 << 2100
    pi = 4 * (4 * arctan_of_inverse(5, one) - arctan_of_inverse(239, one))
    prime = sums.PRIME
    assert prime == 2**2048 - 2**1984 - 1 + 2**64 * ((pi >> (2100 - 1918)) + 124476)
    for p in (prime, (prime - 1) // 2):
        assert all(pow(base, p - 1, p) == 1 for base in (2, 3, 5, 7))
