"""The paper's data sets by name.

`load("a1a")` reads LIBSVM's file from the given folder, or from the folder in the environment variable AGBM_DATA. If
neither is set, the file is downloaded from LIBSVM's site to the user's cache folder.

Files of the same data set may differ in white space, compression and scaling of the columns. The checksums therefore
cover only what a tree depends on: the order of the values in each column, and the labels.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.datasets import load_svmlight_file

LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets"
VARIABLE = "AGBM_DATA"
TIMEOUT = 30.0
MOST_BYTES = 50_000_000  # maximum size of a download; the largest of these files has 2.5 MB


class DataSetError(OSError):
    """Raised if a data set is not available, or is not the expected one."""


class DataSet(NamedTuple):
    """Rows and labels: the classes -1 and 1, or numbers."""

    name: str
    X: Any
    """A dense array, or a CSR matrix if the features are indicators."""
    y: NDArray[Any]
    classifies: bool
    checksum: str = ""


@dataclass(frozen=True)
class _Source:
    file: str
    """File name on LIBSVM's site, in the folder `group`."""
    n_rows: int
    n_features: int
    """Given explicitly, because the last features may not occur in the file."""
    checksum: str
    group: str = "binary"
    sparse: bool = False
    also: tuple[str, ...] = ()
    """Other files with the same order in every column."""


_SOURCES = {
    "a1a": _Source("a1a", 1605, 123, "3c53c1e12baa27045eb96dca4739404f", sparse=True),
    "w1a": _Source("w1a", 2477, 300, "6a889ccb32fcea4684ce361a1f74aaad", sparse=True),
    "diabetes": _Source("diabetes", 768, 8, "e161eaccc7fee0692085a79528a552b8"),
    "german": _Source("german.numer", 1000, 24, "f11a1838d44982235fec9dafb29988f6"),
    "housing": _Source("housing", 506, 13, "cb598d00cfae885a23f77f6dd5d0b91a", group="regression"),
    # This checksum is of the original values; LIBSVM's scaled file has not been checked against it.
    "sonar": _Source("sonar_scale", 208, 60, "fbeea7f565e65117d31b97a85d264d0a", also=("sonar",)),
    "a9a": _Source("a9a", 32561, 123, "3e5b91c102f90b0f5dad4e6918cf85b1", sparse=True),
}
NAMES = tuple(_SOURCES)


def shape_of(name: str) -> tuple[int, int, bool]:
    """Number of rows, number of features, and whether the labels are classes."""
    source = _SOURCES[name]
    return source.n_rows, source.n_features, source.group == "binary"


def load(name: str, folder: str | os.PathLike[str] | None = None) -> DataSet:
    """Load a data set by name, one of `NAMES`, from a folder or the cache (see the module)."""
    if name not in _SOURCES:
        raise ValueError(f"name={name!r} must be one of {', '.join(NAMES)}.")
    source = _SOURCES[name]
    given = folder if folder is not None else os.environ.get(VARIABLE) or None
    if given is None:
        return _from_cache(name, source)
    found = next(_candidates(Path(given), source), None)
    if found is None:
        raise DataSetError(
            f"{name} is not in {Path(given)}: neither this folder nor its subfolder libsvm has a file "
            f"{' or '.join((source.file, *source.also))} (plain, .gz or .bz2). Get it from {_address(source)}, set "
            f"another folder (folder=, or the environment variable {VARIABLE}), or set neither to download it."
        )
    return _read(name, source, found)


def cache_folder() -> Path:
    """The folder for downloads."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agbm"


def _address(source: _Source) -> str:
    return f"{LIBSVM}/{source.group}/{source.file}"


def _candidates(folder: Path, source: _Source) -> Iterator[Path]:
    names = [f"{file}{ending}" for file in (source.file, *source.also) for ending in ("", ".gz", ".bz2")]
    return (path for place in (folder, folder / "libsvm") for name in names if (path := place / name).is_file())


def _from_cache(name: str, source: _Source) -> DataSet:
    path = cache_folder() / source.file
    if path.is_file():
        return _read(name, source, path)
    address = _address(source)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=path.parent) as room:
            fresh = Path(room) / source.file
            fresh.write_bytes(_download(address))
            data = _read(name, source, fresh, address)  # checked before it is moved to the cache
            os.replace(fresh, path)
    except DataSetError:
        raise
    except (OSError, http.client.HTTPException) as error:
        raise DataSetError(
            f"{name} cannot be downloaded from {address} to {path.parent}: {error}. Without a network, copy the file "
            f"to a folder and set it (folder=, or the environment variable {VARIABLE})."
        ) from error
    return data


def _download(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=TIMEOUT) as answer:
        content: bytes = answer.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise OSError(f"the file has more than {MOST_BYTES:,} bytes")
    return content


def _read(name: str, source: _Source, path: Path, origin: str = "") -> DataSet:
    origin = origin or str(path)
    try:
        X, y = load_svmlight_file(str(path), n_features=source.n_features)
    except (ValueError, OSError, EOFError) as error:
        raise DataSetError(f"{origin} cannot be read as an svmlight file of {name}: {error}") from error
    classifies = source.group == "binary"
    if X.shape[0] != source.n_rows or (found := checksum(X, y, classifies)) != source.checksum:
        what = f"{X.shape[0]} rows instead of {source.n_rows}" if X.shape[0] != source.n_rows else f"checksum {found}"
        raise DataSetError(
            f"{origin} is not the data set {name} of the paper ({what}). Get the file from another source and set its "
            f"folder (folder=, or the environment variable {VARIABLE})."
        )
    labels = y.astype(np.int64) if classifies else y
    return DataSet(name, X if source.sparse else X.toarray(), labels, classifies, found)


def checksum(X: Any, y: NDArray[Any], classifies: bool) -> str:
    """Checksum of the order of the values in each column, and of the labels.

    For classes, only whether a label equals that of the first row counts, so swapped signs give the same checksum.
    """
    digest = hashlib.sha256()
    X = X.tocsc() if issparse(X) else X
    for j in range(X.shape[1]):
        column = X[:, [j]].toarray().ravel() if issparse(X) else X[:, j]
        digest.update(np.unique(column, return_inverse=True)[1].astype("<i4").tobytes())
    digest.update((y == y[0]).tobytes() if classifies else y.astype("<f8").tobytes())
    return digest.hexdigest()[:32]
