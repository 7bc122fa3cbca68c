from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .types import AnyArray

MAX_FEATURES: int
MAX_DEPTH: int
REUSED_NUMBERS: int

class BinnedMatrix:
    def __init__(
        self, n_rows: int, n_bins: list[int], n_categories: list[int], folder: str = "", without: list[int] = ...
    ) -> None: ...
    @property
    def n_rows(self) -> int: ...
    @property
    def n_features(self) -> int: ...
    @property
    def n_bins(self) -> list[int]: ...
    def fill(
        self,
        first_feature: int,
        X: AnyArray,
        thresholds: NDArray[np.float64],
        n_threads: int,
        rows: NDArray[np.uint32] | None = None,
    ) -> None: ...
    def values(
        self,
        roots: NDArray[np.int32],
        first_column: NDArray[np.int32],
        nodes: NDArray[np.uint8],
        left_codes: NDArray[np.uint64],
        value: NDArray[np.float64],
        n_columns: int,
        n_threads: int,
    ) -> NDArray[np.float64]: ...
    def leave_out(
        self, n_threads: int, min_samples_leaf: int, n_train: int, repeats: NDArray[np.int64] | None = None
    ) -> None: ...
    @staticmethod
    def from_sparse(
        values: AnyArray,
        rows: NDArray[np.uint32],
        start: NDArray[np.int64],
        n_rows: int,
        n_bins: list[int],
        thresholds: NDArray[np.float64],
        n_threads: int,
        min_samples_leaf: int = 0,
        n_train: int = 0,
        repeats: NDArray[np.int64] | None = None,
    ) -> BinnedMatrix: ...
    @property
    def n_columns(self) -> int: ...
    def codes(self) -> NDArray[np.uint8]: ...
    def columns(self) -> NDArray[np.uint8]: ...
    def take(self, source: BinnedMatrix, features: list[int], rows: NDArray[np.uint32], n_threads: int) -> None: ...
    def put(self, codes: NDArray[np.uint8], first_row: int) -> None: ...
    def with_features(
        self, features: list[int], n_bins: list[int], n_categories: list[int], folder: str = ""
    ) -> BinnedMatrix: ...

class _Grower:
    def __init__(
        self,
        matrix: BinnedMatrix,
        thresholds: NDArray[np.float64],
        *,
        max_depth: int,
        max_leaf_nodes: int,
        min_samples_leaf: int,
        min_split_gain: float,
        monotone: list[int],
        interactions: list[list[int]],
        n_threads: int,
    ) -> None: ...

class Grower(_Grower):
    def grow(
        self,
        *,
        residuals: Sequence[NDArray[np.float64]],
        hessians: NDArray[np.float64] | None,
        repeats: NDArray[np.int64] | None,
        distances: Sequence[NDArray[np.float64]] = (),
        shares: Sequence[float] = (),
        steps: NDArray[np.int64] | None = None,
        rows: NDArray[np.uint32] | None,
        ring: tuple[int, int, int] = (0, 0, 0),
        features: NDArray[np.uint8] | None,
        node_share: float,
        n_outputs: int = 0,
        seed: int,
        min_hessian_leaf: float,
        l1_regularization: float = 0.0,
        l2_regularization: Sequence[float],
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint64], NDArray[np.float64], NDArray[np.float64]]: ...

class RemoteGrower(_Grower):
    def grow(
        self,
        *,
        sums: Any,
        n_repeated: int,
        max: list[float],
        n_residuals: int,
        n_quantiles: int = 0,
        features: NDArray[np.uint8] | None,
        node_share: float,
        n_outputs: int = 0,
        seed: int,
        min_hessian_leaf: float,
        l1_regularization: float = 0.0,
        l2_regularization: Sequence[float],
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint64], NDArray[np.float64]]: ...

class DeviceGrower(_Grower):
    def grow(
        self,
        *,
        rows: DeviceRows,
        host: Any,
        stream: int,
        residuals: list[int],
        hessians: list[int],
        repeats: int,
        n_repeated: int,
        chosen: int,
        n_chosen: int,
        n_train: int,
        ring: tuple[int, int, int],
        n_quantiles: int,
        values: int,
        features: NDArray[np.uint8] | None,
        node_share: float,
        n_outputs: int = 0,
        seed: int,
        min_hessian_leaf: float,
        l1_regularization: float = 0.0,
        l2_regularization: Sequence[float],
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint64], NDArray[np.float64]]: ...

DEVICE_KERNELS: tuple[str, ...]

class DeviceRows:
    def __init__(
        self,
        *,
        launch: int,
        copy_to_device: int,
        copy_to_host: int,
        clear: int,
        wait: int,
        kernels: list[int],
        n_processors: int,
        n_rows: int,
        n_features: int,
        group_columns: int,
        n_cells: int,
        widest_group: int,
        first_cells: int,
        codes: int,
        first_cell: int,
        n_bins: int,
        n_categories: int,
        monotone: int,
    ) -> None: ...

class ShardRows:
    def __init__(self, matrix: BinnedMatrix, ring: tuple[int, int, int], n_threads: int) -> None: ...
    def set_residuals(
        self,
        *,
        residuals: Sequence[NDArray[np.float64]],
        hessians: NDArray[np.float64] | None,
        repeats: NDArray[np.int64] | None,
        distances: Sequence[NDArray[np.float64]] = (),
        shares: Sequence[float] = (),
        steps: NDArray[np.int64] | None = None,
    ) -> tuple[int, list[float]]: ...
    def start(self, *, n_repeated: int, max: list[float], rows: NDArray[np.uint32] | None) -> None: ...
    def summed_by(self, sums: NDArray[np.int32], n_residuals: int) -> None: ...
    def split(self, splits: NDArray[np.int64]) -> None: ...
    def histograms(self, nodes: NDArray[np.int32]) -> NDArray[np.int64]: ...
    def noise(self) -> NDArray[np.int64]: ...
    def leaf_sums(self, leaves: NDArray[np.int32]) -> NDArray[np.int64]: ...
    def tally(
        self, leaves: NDArray[np.int32], output: int, known: NDArray[np.uint64], shift: int, width: int
    ) -> NDArray[np.int64]: ...
    def values(
        self, nodes: NDArray[np.uint8], left_codes: NDArray[np.uint64], value: NDArray[np.float64]
    ) -> NDArray[np.float64]: ...

class Forest:
    def __init__(
        self,
        n_features: int,
        n_columns: int,
        roots: NDArray[np.int32],
        first_column: NDArray[np.int32],
        nodes: NDArray[np.uint8],
        category_words: NDArray[np.uint64],
        category_start: NDArray[np.int64],
        value: NDArray[np.float64],
    ) -> None: ...
    def predict(self, X: AnyArray, out: NDArray[np.float64], n_threads: int) -> None: ...
    def leaf_nodes(self, X: AnyArray, n_threads: int) -> NDArray[np.int32]: ...

def leaf_sums(
    x: NDArray[np.float64],
    leaf: NDArray[np.int32],
    n_leaves: int,
    repeats: NDArray[np.int64] | None = None,
    n_threads: int = 1,
) -> NDArray[np.float64]: ...

class RowPredictor:
    def __init__(self, forest: Forest, start: NDArray[np.float64], link: str, n_threads: int) -> None: ...
    def fill(self, X: AnyArray, out: NDArray[np.float64]) -> None: ...

class Contributions:
    def __init__(self, forest: Forest) -> None: ...
    def predict(self, X: AnyArray, n_threads: int) -> NDArray[np.float64]: ...
    def passes(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint8], int, NDArray[np.float64]]: ...

class Interactions:
    def __init__(self, forest: Forest) -> None: ...
    def predict(self, X: AnyArray, out: NDArray[np.float64], n_threads: int) -> None: ...

def contributions_against(
    forest: Forest, X: AnyArray, background: AnyArray, interactions: bool, out: NDArray[np.float64], n_threads: int
) -> None: ...
def thresholds(
    X: AnyArray, rows: NDArray[np.int64] | None, max_bins: int, n_threads: int
) -> tuple[NDArray[np.float64], NDArray[np.int32]]: ...
def sparse_thresholds(
    values: AnyArray, start: NDArray[np.int64], n_rows: int, max_bins: int, n_threads: int
) -> tuple[NDArray[np.float64], NDArray[np.int32]]: ...
def histogram(
    matrix: BinnedMatrix,
    residuals: Sequence[NDArray[np.float64]],
    hessians: NDArray[np.float64] | None,
    rows: NDArray[np.uint32] | None,
    n_threads: int,
) -> tuple[NDArray[np.int64], NDArray[np.float64], int]: ...
def model_file_table(file: NDArray[np.uint8]) -> tuple[int, list[tuple[str, int, int, int, int]]]: ...
def empty(shape: tuple[int, ...]) -> NDArray[np.float64]: ...
def choose_threads(pool: int) -> None: ...
def begin_run() -> None: ...
def end_run() -> None: ...
def mix(
    a: float, x: NDArray[np.float64], b: float, y: NDArray[np.float64], out: NDArray[np.float64], n_threads: int
) -> None: ...
def multiply(x: NDArray[np.float64], y: NDArray[np.float64], out: NDArray[np.float64], n_threads: int) -> None: ...
def exp(x: NDArray[np.float64], out: NDArray[np.float64], n_threads: int) -> None: ...
def log(x: NDArray[np.float64], out: NDArray[np.float64], n_threads: int) -> None: ...
def sigmoid(x: NDArray[np.float64], out: NDArray[np.float64], n_threads: int) -> None: ...
def exact_sum(x: NDArray[np.float64], weight: NDArray[np.float64] | None, n_threads: int) -> tuple[bytes, float]: ...
def inner_products(
    x: NDArray[np.float64], y: NDArray[np.float64], weight: NDArray[np.float64] | None, n_threads: int
) -> tuple[tuple[bytes, float], tuple[bytes, float], tuple[bytes, float]]: ...
def rounded_inner_products(
    x: NDArray[np.float64], y: NDArray[np.float64], weight: NDArray[np.float64] | None, n_threads: int
) -> tuple[float, float, float]: ...
def lifetimes(
    errors: str,
    log_scale: float,
    quantity: str,
    y: NDArray[np.float64],
    f: NDArray[np.float64],
    out: NDArray[np.float64],
    n_threads: int,
) -> None: ...
def hazards(
    edges: NDArray[np.float64],
    quantity: str,
    y: NDArray[np.float64],
    f: NDArray[np.float64],
    out: NDArray[np.float64],
    n_threads: int,
) -> None: ...
def cox(
    rows: NDArray[np.uint32],
    first: NDArray[np.uint32],
    time_of: NDArray[np.uint32],
    efron: bool,
    quantity: str,
    y: NDArray[np.float64],
    f: NDArray[np.float64],
    weight: NDArray[np.float64] | None,
    out: NDArray[np.float64],
    n_threads: int,
) -> None: ...
def concordance(
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
    rank: NDArray[np.uint32],
    weight: NDArray[np.float64] | None,
    starts: NDArray[np.uint32],
    ends: NDArray[np.uint32],
) -> tuple[float, float]: ...
def loss_kinds() -> dict[str, tuple[str, int]]: ...
def loss_value(
    name: str,
    parameter: float,
    y: NDArray[np.float64],
    f: NDArray[np.float64],
    out: NDArray[np.float64],
    n_threads: int,
) -> None: ...
def loss_sum(
    name: str,
    parameter: float,
    y: NDArray[np.float64],
    f: NDArray[np.float64],
    weight: NDArray[np.float64] | None,
    n_threads: int,
) -> tuple[bytes, float]: ...
def loss_mean(name: str, parameter: float, y: NDArray[np.float64], f: NDArray[np.float64], n_threads: int) -> float: ...
def loss_negative_gradient(
    name: str,
    parameter: float,
    y: NDArray[np.float64],
    f: NDArray[np.float64],
    out: NDArray[np.float64],
    n_threads: int,
) -> None: ...
def loss_hessian(
    name: str,
    parameter: float,
    y: NDArray[np.float64],
    f: NDArray[np.float64],
    out: NDArray[np.float64],
    n_threads: int,
) -> None: ...
def loss_derivatives(
    name: str,
    parameter: float,
    y: NDArray[np.float64],
    f: NDArray[np.float64],
    negative_gradient: NDArray[np.float64],
    hessian: NDArray[np.float64],
    n_threads: int,
) -> None: ...

class QueryLabels:
    def __init__(
        self,
        name: str,
        cut: int,
        truncation: int,
        exponential_gain: bool,
        relevance: NDArray[np.float64],
        query: NDArray[np.float64],
    ) -> None: ...
    def value(self, score: NDArray[np.float64], out: NDArray[np.float64], n_threads: int) -> None: ...
    def derivatives(
        self,
        score: NDArray[np.float64],
        residual: NDArray[np.float64],
        hessian: NDArray[np.float64],
        n_threads: int,
    ) -> None: ...

def ranking_marks(
    pairs: bool, relevance: NDArray[np.float64], query: NDArray[np.float64], out: NDArray[np.float64]
) -> None: ...
def row_keys(X: AnyArray, n_threads: int) -> NDArray[np.uint64]: ...
def digest_rows(
    X: AnyArray,
    first: int,
    shift: int,
    first_column: int,
    blocks: NDArray[np.uint64],
    columns: NDArray[np.uint64],
    n_threads: int,
) -> None: ...
def digest_sparse_rows(
    values: AnyArray,
    indices: NDArray[np.int64],
    start: NDArray[np.int64],
    first: int,
    shift: int,
    blocks: NDArray[np.uint64],
    columns: NDArray[np.uint64],
    n_threads: int,
) -> None: ...
