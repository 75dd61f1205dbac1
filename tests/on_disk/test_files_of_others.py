"""svmlight and Parquet files, read piece by piece, against the loaders of others."""

import bz2
import gzip
import lzma
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file
from tests.data import datasets, require

from maxmargin import data


def compressed(path, text):
    kind = path.suffix
    if kind == ".zst":
        zstandard = pytest.importorskip("zstandard")
        path.write_bytes(zstandard.compress(text))
    else:
        how = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
        path.write_bytes(how.get(kind, bytes)(text))


@pytest.mark.parametrize("suffix", ["txt", "gz", "bz2", "xz", "zst"])
@pytest.mark.parametrize("zero_based", [False, True])
@pytest.mark.parametrize("queries", [False, True])
def test_round_trips(tmp_path, suffix, zero_based, queries):
    rng = np.random.default_rng(0)
    X = sp.random(300, 40, density=0.1, format="csr", random_state=0)
    X.data = np.where(rng.random(X.nnz) < 0.5, rng.normal(size=X.nnz), np.round(X.data, 3))
    y, group = rng.integers(-1, 2, 300), np.sort(rng.integers(1, 30, 300)) if queries else None
    plain, path = tmp_path / "plain", tmp_path / f"file.{suffix}"
    dump_svmlight_file(X, y, str(plain), zero_based=zero_based, query_id=group, comment="made up")
    compressed(path, plain.read_bytes())
    batches = list(data.read_svmlight(path, zero_based=zero_based, text_bytes=3000))
    assert len(batches) > 3
    written = data.write(tmp_path / "set", batches, shard_bytes=2000)
    theirs = load_svmlight_file(str(plain), zero_based=zero_based, query_id=queries)
    ours, labels, _ = written.load()
    assert ours.shape == theirs[0].shape
    for name in ("indptr", "indices", "data"):
        assert np.array_equal(getattr(ours, name), getattr(theirs[0], name))
    assert np.array_equal(labels, theirs[1])
    assert written.group is None if not queries else np.array_equal(written.group, theirs[2])


@example(["-.0"])
@given(
    st.lists(
        st.one_of(
            st.floats(allow_nan=False, allow_infinity=False),
            st.decimals(allow_nan=False, allow_infinity=False, places=3),
            st.integers(-(10**25), 10**25),
            st.from_regex(r"[+-]?[0-9]{0,25}\.[0-9]{1,25}([eE][+-]?[0-9]{1,2})?", fullmatch=True),
        ),
        min_size=1,
        max_size=60,
    )
)
def test_numbers_have_the_bits_of_float(tmp_path_factory, values):
    texts = [str(value) for value in values]
    path = tmp_path_factory.mktemp("numbers") / "file"
    path.write_text("".join(f"{text} 1:{text}\n" for text in texts))
    (X, y), *more = data.read_svmlight(path)
    assert not more
    expected = np.array([float(text) for text in texts])
    # the stored entries: adding them up in a dense matrix would turn -0.0 into 0.0
    assert y.tobytes() == X.data.tobytes() == expected.tobytes()


def test_odd_but_right(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(
        b"# a heading\n\n  +1\t2:1.5   7:-2 \t# 3:4\r\n-1#nothing\n\n0.5 1:.5 2:5. 3:1E2\n1 9:1\n# end"
    )
    (X, y), *_ = data.read_svmlight(path)
    assert y.tolist() == [1.0, -1.0, 0.5, 1.0]
    expected = np.zeros((4, 9))
    expected[0, 1], expected[0, 6], expected[3, 8] = 1.5, -2.0, 1.0
    expected[2, :3] = 0.5, 5.0, 100.0
    assert np.array_equal(X.toarray(), expected)
    assert next(data.read_svmlight(path, 12))[0].shape == (4, 12)
    assert next(data.read_svmlight(path, dtype=np.float32))[0].dtype == np.float32
    lines = list(data.read_svmlight(path, text_bytes=1))
    assert [batch[0].shape for batch in lines] == [(1, 7), (1, 7), (1, 7), (1, 9)]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("1 1:2\n1 0:3\n", r"line 2: a feature index .*zero_based=True"),
        ("1 a:2\n", "line 1: a feature index"),
        ("1 3:2 2:1\n", "line 1: the indices of a line must be ascending"),
        ("1 3:2 3:1\n", "line 1: the indices of a line must be ascending"),
        ("1 3:2\n1 3\n", "line 2: expected index:value"),
        ("1 3:2\n\n1 3:2x\n", "line 3: '2x' is not a number"),
        ("1 3:\n", "line 1: '' is not a number"),
        ("1,2 3:1\n", "line 1: '1,2' is not a number"),
        ("1 qid:1 3:1\n1 3:1\n", "line 2: qid must be"),
        ("1 3:1 qid:1\n", "line 1: qid must be"),
        ("1 -3:1\n", "line 1: a feature index"),
        ("1 11:1\n", "has a feature 11, but n_features=10"),
    ],
)
def test_bad_lines_are_named(tmp_path, text, error):
    path = tmp_path / "file"
    path.write_text(text)
    with pytest.raises(ValueError, match=error):
        list(data.read_svmlight(path, 10))


def test_infinite_values_are_refused_by_the_writer(tmp_path):
    path = tmp_path / "file"
    path.write_text("1 1:2\n1 1:inf\n")
    with pytest.raises(ValueError, match=r"batch 0: .* row 1"):
        data.write(tmp_path / "set", data.read_svmlight(path))


def table(n=1000):
    import pyarrow as pa

    rng = np.random.default_rng(0)
    return pa.table(
        {
            "a": rng.normal(size=n).astype(np.float32),
            "label": rng.choice(["x", "y"], n),
            "b": rng.normal(size=n).astype(np.float32),
            "count": rng.integers(0, 5, n),
            "w": rng.random(n),
            "q": rng.integers(0, 9, n),
        }
    )


def test_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    rows = table()
    (tmp_path / "folder").mkdir()
    pq.write_table(rows.slice(0, 700), tmp_path / "folder" / "1.parquet", row_group_size=300)
    pq.write_table(rows.slice(700), tmp_path / "folder" / "2.parquet")
    batches = data.read_parquet(tmp_path / "folder", label="label", weight="w", group="q", rows=128)
    written = data.write(tmp_path / "set", batches)
    assert written.feature_names == ["a", "b", "count"]
    assert written.dtype == np.float64
    X, y, weight = written.load()
    frame = rows.to_pandas()
    assert np.array_equal(X, frame[["a", "b", "count"]])
    assert y.tolist() == frame["label"].tolist()
    assert np.array_equal(weight, frame["w"])
    assert np.array_equal(written.group, frame["q"])
    chosen = data.read_parquet(tmp_path / "folder" / "1.parquet", label="count", columns=["b", "a"])
    written = data.write(tmp_path / "other", chosen)
    assert written.feature_names == ["b", "a"]
    assert written.dtype == np.float32
    assert np.array_equal(written.load()[0], frame[["b", "a"]][:700])
    assert np.array_equal(written.y, frame["count"][:700])


def test_parquet_refusals(tmp_path):
    pytest.importorskip("pyarrow")
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"a": [1.0, None], "b": ["x", "y"]}), tmp_path / "f.parquet")
    path = tmp_path / "f.parquet"
    with pytest.raises(ValueError, match=r"no column 'c'; it has \['a', 'b'\]"):
        list(data.read_parquet(path, label="c"))
    with pytest.raises(ValueError, match="column 'a' has missing values"):
        list(data.read_parquet(path, label="b"))
    with pytest.raises(TypeError, match="column 'b' has type string"):
        list(data.read_parquet(path, label=None, columns=["b"]))


@pytest.mark.parametrize(
    ("package", "extra", "use"),
    [
        ("zstandard", "zstd", lambda path: list(data.read_svmlight(path / "file.zst"))),
        ("pyarrow.dataset", "arrow", lambda path: list(data.read_parquet(path, label="y"))),
        ("fsspec", "remote", lambda path: data.open("s3://bucket/name")),
    ],
)
def test_a_missing_package_is_named(tmp_path, monkeypatch, package, extra, use):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"maxmargin\[{extra}\]"):
        use(tmp_path)


def test_the_package_of_a_store_is_named(monkeypatch):
    core = pytest.importorskip("fsspec.core")

    def missing(url, **options):
        raise ImportError("Install the package of this store")

    monkeypatch.setattr(core, "url_to_fs", missing)
    with pytest.raises(ImportError, match=r"Install the package.*maxmargin\[remote\]"):
        data.open("s3://bucket/name")
    with pytest.raises(ImportError, match=r"gs://bucket/name: Install the package of this store$"):
        data.open("gs://bucket/name")


@pytest.mark.data
@pytest.mark.parametrize("name", ["a9a", "ijcnn1.trn", "ijcnn1.tst"])
def test_real_files(tmp_path, name):
    path = require(datasets.find, f"classification/{name}.xz")
    written = data.write(tmp_path, data.read_svmlight(path, text_bytes=1 << 20))
    X, y, _ = written.load()
    with lzma.open(path) as file:
        theirs, labels = load_svmlight_file(file, zero_based=False)
    assert X.shape == theirs.shape
    assert np.array_equal(X.data, theirs.data)
    assert np.array_equal(X.indices, theirs.indices)
    assert np.array_equal(y, labels)
    assert written.classes.tolist() == [-1.0, 1.0]
