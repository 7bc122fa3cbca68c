from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

class BinnedMatrix:
    @property
    def n_rows(self) -> int: ...
    @property
    def n_features(self) -> int: ...
    @property
    def n_bins(self) -> list[int]: ...
    def codes(self) -> NDArray[np.uint8]: ...

class _Grown(TypedDict):
    feature: NDArray[np.int32]
    bin: NDArray[np.int32]
    missing_left: NDArray[np.uint8]
    left: NDArray[np.int32]
    gain: NDArray[np.float64]
    count: NDArray[np.int64]
    value: NDArray[np.float64]
    row_values: NDArray[np.float64]

class Grower:
    def __init__(
        self,
        matrix: BinnedMatrix,
        *,
        max_depth: int,
        max_leaf_nodes: int,
        min_samples_leaf: int,
        l2_regularization: float,
        min_split_gain: float,
        n_threads: int,
    ) -> None: ...
    def grow(
        self,
        gradients: NDArray[np.float64],
        hessians: NDArray[np.float64] | None,
        repeats: NDArray[np.int64] | None,
        min_hessian_leaf: float,
    ) -> _Grown: ...

class Forest:
    def __init__(
        self,
        n_features: int,
        roots: NDArray[np.int32],
        feature: NDArray[np.int32],
        threshold: NDArray[np.float64],
        left: NDArray[np.int32],
        missing_left: NDArray[np.uint8],
        value: NDArray[np.float64],
    ) -> None: ...
    def predict(self, X: NDArray[Any], n_threads: int) -> NDArray[np.float64]: ...

def bin_matrix(
    X: NDArray[Any], thresholds: NDArray[np.float64], offsets: NDArray[np.int64], n_threads: int
) -> BinnedMatrix: ...
def histogram(
    matrix: BinnedMatrix,
    gradients: NDArray[np.float64],
    hessians: NDArray[np.float64] | None,
    rows: NDArray[np.uint32] | None,
    n_threads: int,
) -> tuple[NDArray[np.int64], NDArray[np.float64], int]: ...
def loss_value(
    name: str,
    parameter: float,
    y: NDArray[np.float64],
    f: NDArray[np.float64],
    out: NDArray[np.float64],
    n_threads: int,
) -> None: ...
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
