"""Samples of rows and features for trees. They depend only on the seed and the number of the iteration."""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._base.sums import Array

# A sample with this expected number of rows is never empty in practice.
ROWS_WITHOUT_DOUBT = 64


class Shares(NamedTuple):
    """The shares of rows and features that are drawn, and the seed of the draws."""

    subsample: float
    colsample_bytree: float
    draws_in_trees: bool
    """Whether there are draws during the growth of a tree, which need a seed of their own."""
    seed: int


class RowSample(NamedTuple):
    """A random sample of rows. Whether a row is in it depends only on the key and the number of the row."""

    key: int
    threshold: float

    @classmethod
    def of(cls, shares: Shares, n_train: int, iteration: int) -> RowSample | None:
        """The sample of an iteration; None if all rows are used."""
        share = shares.subsample
        if share >= 1.0:
            return None
        key = np.random.SeedSequence([shares.seed, iteration]).generate_state(1, np.uint64)
        sample = cls(int(key[0]), share)
        if share * n_train < ROWS_WITHOUT_DOUBT:  # make sure that there is at least one row
            smallest = float(sample.draws(0, n_train).min())
            sample = sample._replace(threshold=max(share, float(np.nextafter(smallest, 1.0))))
        return sample

    def rows(self, first: int, n: int) -> NDArray[np.uint32]:
        """The sampled rows among n training rows; `first` is the number of the first of them among all."""
        return np.flatnonzero(self.draws(first, n) < self.threshold).astype(np.uint32)

    def draws(self, first: int, n: int) -> Array:
        """A random number between 0 and 1 for each of these rows."""
        numbers = np.arange(first, first + n, dtype=np.uint64) + np.uint64(self.key)
        return np.asarray((_mixed(numbers) >> np.uint64(11)) * 2.0**-53)


class Sample:
    """The row sample of one iteration, and the feature samples of its trees in their order."""

    def __init__(self, shares: Shares, n_train: int, n_features: int, n_seen: int, iteration: int) -> None:
        """n_seen: the number of features, from the first on, that trees may use."""
        self._shares = shares
        self._n_features = n_features
        self._n_seen = n_seen
        self._iteration = iteration
        self.rows = RowSample.of(shares, n_train, iteration)
        self._n_seeds = 0

    @cached_property
    def _random(self) -> np.random.Generator:
        return np.random.default_rng([self._shares.seed, self._iteration])

    def draw_features(self) -> NDArray[np.uint8] | None:
        """Which features the next tree may use; None for all."""
        share, n_seen = self._shares.colsample_bytree, self._n_seen
        if share >= 1.0 and n_seen == self._n_features:
            return None
        chosen = np.zeros(self._n_features, dtype=np.uint8)
        if share >= 1.0:
            chosen[:n_seen] = 1
        else:  # rounded up: each of few features may matter
            chosen[self._random.choice(n_seen, math.ceil(share * n_seen), replace=False)] = 1
        return chosen

    def draw_seed(self) -> int:
        """The seed of what the growth of the next tree draws; kernels hash it, so any that is rarely used will do."""
        if not self._shares.draws_in_trees:
            return 0
        self._n_seeds += 1
        return (self._shares.seed << 32) + (self._iteration << 12) + self._n_seeds


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A hash of each number: the finaliser of splitmix64, as in the kernels."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
