"""Data sets by name. The paper's data sets are tested if the environment variable AGBM_DATA is set."""

import gzip
import http.server
import os
import threading

import numpy as np
import pytest
from scipy.sparse import csr_matrix, issparse
from sklearn.datasets import dump_svmlight_file, load_iris

from agbm._apps.paper import data_sets as data


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """A small data set, registered like those of the paper, and a folder with its file."""
    X, y = load_iris(return_X_y=True)
    X, y = X[:100], np.where(y[:100] == 0, -1, 1)
    known = data._Source("tiny", 100, 4, data.checksum(X, y, True), also=("tiny_scale",))
    monkeypatch.setitem(data._SOURCES, "tiny", known)
    monkeypatch.delenv(data.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "folder"
    folder.mkdir()
    dump_svmlight_file(X, y, str(folder / "tiny"), zero_based=False)
    return X, y, folder


@pytest.fixture
def site(tiny, monkeypatch):
    """A local server in place of LIBSVM's site, which serves the files of the folder."""
    _, _, folder = tiny
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(folder))

        def translate_path(self, path):
            asked.append(path)
            return super().translate_path(path.removeprefix("/binary"))

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setattr(data, "LIBSVM", f"http://127.0.0.1:{server.server_port}")
        yield asked
        server.shutdown()
        thread.join()


class TestFolders:
    def test_given_or_named_by_the_variable(self, tiny, monkeypatch):
        X, y, folder = tiny
        found = data.load("tiny", folder)
        np.testing.assert_allclose(found.X, X)
        np.testing.assert_array_equal(found.y, y)
        assert found.classifies
        assert found.y.dtype.kind == "i"
        monkeypatch.setenv(data.VARIABLE, str(folder))
        np.testing.assert_array_equal(data.load("tiny").X, found.X)

    def test_compressed_scaled_or_in_a_folder_below(self, tiny):
        X, y, folder = tiny
        (folder / "libsvm").mkdir()
        scaled = folder / "libsvm" / "tiny_scale"
        dump_svmlight_file(2.0 * X / X.max(axis=0) - 1.0, -y, str(scaled), zero_based=False)
        (folder / "libsvm" / "tiny_scale.gz").write_bytes(gzip.compress(scaled.read_bytes()))
        scaled.unlink()
        (folder / "tiny").unlink()
        assert data.load("tiny", folder).X.max() == 1.0

    def test_wrong_checksum_raises(self, tiny):
        X, y, folder = tiny
        swapped = X.copy()
        swapped[[0, 99], 2] = swapped[[99, 0], 2]
        for table, labels, what in (
            (X[1:], y[1:], "99 rows"),
            (swapped, y, "checksum"),
            (X, np.roll(y, 1), "checksum"),
        ):
            dump_svmlight_file(table, labels, str(folder / "tiny"), zero_based=False)
            with pytest.raises(data.DataSetError, match=f"is not the data set tiny of the paper .{what}"):
                data.load("tiny", folder)
        (folder / "tiny").write_bytes(os.urandom(200))
        with pytest.raises(data.DataSetError, match="cannot be read as an svmlight file of tiny"):
            data.load("tiny", folder)

    def test_missing_file_raises(self, tiny, tmp_path):
        with pytest.raises(data.DataSetError, match=r"tiny is not in .*empty.* Get it from .*binary/tiny.*AGBM_DATA"):
            data.load("tiny", tmp_path / "empty")
        with pytest.raises(ValueError, match=r"name='iris' must be one of a1a, w1a"):
            data.load("iris")


class TestDownload:
    def test_once_into_the_cache(self, tiny, site):
        X, _, folder = tiny
        np.testing.assert_allclose(data.load("tiny").X, X)
        (folder / "tiny").unlink()
        np.testing.assert_allclose(data.load("tiny").X, X)
        assert site == ["/binary/tiny"]
        assert [path.name for path in data.cache_folder().iterdir()] == ["tiny"]

    def test_no_file_no_site_no_cache(self, tiny, site, monkeypatch, tmp_path):
        _, _, folder = tiny
        (folder / "tiny").unlink()
        with pytest.raises(data.DataSetError, match=r"cannot be downloaded from .*404.*AGBM_DATA"):
            data.load("tiny")
        monkeypatch.setattr(data, "LIBSVM", "http://127.0.0.1:9")
        with pytest.raises(data.DataSetError, match=r"cannot be downloaded from .*refused"):
            data.load("tiny")
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        with pytest.raises(data.DataSetError, match="cannot be downloaded"):
            data.load("tiny")

    def test_invalid_downloads_are_not_cached(self, tiny, site, monkeypatch):
        _, _, folder = tiny
        (folder / "tiny").write_text("1 1:2\n")
        with pytest.raises(data.DataSetError, match="1 rows instead of 100"):
            data.load("tiny")
        monkeypatch.setattr(data, "MOST_BYTES", 3)
        with pytest.raises(data.DataSetError, match="more than 3 bytes"):
            data.load("tiny")
        assert list(data.cache_folder().iterdir()) == []


def test_checksums_see_order_alone():
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 3, size=(50, 6)).astype(float), rng.choice([-1, 1], 50)
    one = data.checksum(X, y, True)
    assert one == data.checksum(csr_matrix(X), y, True) == data.checksum(3 * X - 7, -y, True)
    assert one != data.checksum(-X, y, True)
    assert data.checksum(X, y.astype(float), False) != data.checksum(X, 2.0 * y, False)


@pytest.mark.skipif(not os.environ.get(data.VARIABLE), reason=f"{data.VARIABLE} is not set")
@pytest.mark.parametrize("name", data.NAMES)
def test_the_papers_sets(name):
    found, source = data.load(name), data._SOURCES[name]
    assert found.X.shape == (source.n_rows, source.n_features)
    assert issparse(found.X) == source.sparse
    assert found.classifies == (name != "housing")
    if found.classifies:
        assert set(np.unique(found.y)) == {-1, 1}
