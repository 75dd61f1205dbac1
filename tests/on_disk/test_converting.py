"""Parts and conversions: the same data set for any number of workers, after interruptions, in any pieces."""

import gzip
import os

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import data
from maxmargin.data import conversion
from maxmargin.data.formats import compressed


def own_files(folder):
    """The files of the manifest, which must be all that there are."""
    shards = data.open(folder)._manifest.shards
    return {f.name for s in shards for f in s.files.values()} | {"manifest.json"}


def assert_same(one, two):
    (X, y, weight), (X2, y2, weight2) = one.load(), two.load()
    assert one.shape == two.shape
    assert (X != X2).nnz == 0 if sp.issparse(X) else np.array_equal(X, X2)
    assert np.array_equal(y, y2)
    assert (weight is None and weight2 is None) or np.array_equal(weight, weight2)
    assert (one.group is None) == (two.group is None)
    assert one.group is None or np.array_equal(one.group[:], two.group[:])
    assert np.array_equal(one.classes, two.classes)
    assert np.array_equal(one.class_counts, two.class_counts)
    assert one.largest_square == two.largest_square


@pytest.fixture(scope="module")
def svmlight(tmp_path_factory):
    rng = np.random.default_rng(0)
    lines = ["# a comment", ""]
    for k in range(400):
        columns = np.unique(rng.integers(1, 40 + k, 4))
        features = " ".join(f"{c}:{rng.normal():.5g}" for c in columns)
        lines.append(f"{rng.integers(3)} qid:{k // 5} {features}" + " # x" * (k % 7 == 0))
    path = tmp_path_factory.mktemp("text") / "rows.svm"
    path.write_text("\n".join(lines))  # no newline at the end
    return path


# -- ranges of lines -------------------------------------------------------------------------------


def test_every_line_is_in_the_range_in_which_it_begins(tmp_path):
    text = b"ab\n\nc\r\nlonger line\nend"
    (tmp_path / "t").write_bytes(text)
    lines = text.splitlines(keepends=True)
    starts = np.cumsum([0] + [len(line) for line in lines])[:-1]
    for begin in range(len(text) + 1):
        for end in range(begin, len(text) + 3):
            with compressed.opened(str(tmp_path / "t"), (begin, end)) as file:
                own = [line for at, line in zip(starts, lines, strict=True) if begin <= at < end]
                assert file.read() == b"".join(own)


def test_compressed_files_have_no_ranges(tmp_path):
    with pytest.raises(ValueError, match="compressed"):
        list(data.read_svmlight(tmp_path / "a.gz", span=(0, 5)))


def test_errors_in_a_range_have_the_line_of_the_file(tmp_path):
    svm = tmp_path / "a.svm"
    svm.write_text("1 1:1\n" * 50 + "1 1:x\n")
    with pytest.raises(ValueError, match=r"a\.svm, line 51: 'x' is not a number"):
        data.convert(svm, tmp_path / "rows", part_bytes=70)


# -- conversions -----------------------------------------------------------------------------------


def test_svmlight_in_parts(svmlight, tmp_path):
    expected = data.write(tmp_path / "expected", data.read_svmlight(svmlight))
    whole = data.convert(svmlight, tmp_path / "whole")
    one = data.convert(svmlight, tmp_path / "one", part_bytes=1000)
    two = data.convert(svmlight, tmp_path / "two", part_bytes=1000, n_jobs=2, engine="threads")
    assert len(one.fingerprint) > 10
    assert one.fingerprint == two.fingerprint
    for found in (whole, one, two):
        found.verify()
        assert_same(found, expected)
    assert set(os.listdir(tmp_path / "two")) == own_files(tmp_path / "two")


def test_processes_and_compressed_files(svmlight, tmp_path):
    sources = []
    lines = svmlight.read_text().splitlines(keepends=True)
    for k in range(3):
        path = tmp_path / f"{k}.svm.gz"
        path.write_bytes(gzip.compress("".join(lines[k::3]).encode()))
        sources.append(path)
    one = data.convert(sources, tmp_path / "one", dtype=np.float32)
    two = data.convert(sources, tmp_path / "two", dtype=np.float32, n_jobs=2)
    assert (one.dtype, len(one), len(one.fingerprint)) == (np.float32, 400, 3)
    assert one.fingerprint == two.fingerprint


@pytest.fixture
def tables(tmp_path):
    """Folders of Parquet files with several row groups, dense and sparse."""
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(0)
    X = sp.random(600, 50, 0.05, format="csr", rng=rng, dtype=np.float32)
    y = rng.choice(["b", "a", "c"], 600)
    for k in range(2):
        part = slice(300 * k, 300 * k + 300)
        rows = X[part]
        spans = list(zip(rows.indptr[:-1], rows.indptr[1:], strict=True))
        columns, values = ([a[i:j] for i, j in spans] for a in (rows.indices, rows.data))
        lists = {"values": values, "columns": columns, "y": y[part]}
        dense = {"u": rng.normal(size=300), "v": np.arange(300), "y": y[part]}
        for name, content in (("sparse", lists), ("dense", dense)):
            (tmp_path / name).mkdir(exist_ok=True)
            pq.write_table(pa.table(content), tmp_path / name / f"{k}.parquet", row_group_size=70)
    return X, y


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_row_groups_of_parquet(tables, tmp_path, kind):
    source = tmp_path / kind
    expected = data.write(tmp_path / "expected", data.read_parquet(source, label="y"))
    one = data.convert(source, tmp_path / "one", part_bytes=1, label="y")
    two = data.convert(
        source, tmp_path / "two", part_bytes=1, label="y", n_jobs=2, engine="threads"
    )
    one.verify()
    assert len(one.fingerprint) == 10
    assert one.fingerprint == two.fingerprint
    assert_same(one, expected)
    if kind == "sparse":
        X, y = tables
        assert one.dtype == np.float32
        assert (one.load()[0] != X[:, : one.shape[1]]).nnz == 0
        assert np.array_equal(one.y[:], y)


def test_wrong_lists_are_refused(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "t.parquet"
    for columns, text in [
        ({"i": [[0, 1]], "v": [[1.0]]}, "differ in length"),
        ({"i": [[-1]], "v": [[1.0]]}, "a negative index"),
        (
            {"i": [[0], [1, 2]], "v": [1.0, 2.0]},
            "a list of 2 numbers in row 1, and of 1 in rows before",
        ),
        ({"i": [[0.5], []], "v": [[1.0], [2.0]]}, "a list of 0 numbers in row 1"),
        ({"i": [[1], None], "v": [[1.0], []]}, "missing lists, the first in row 1"),
        ({"i": [[0], [1, None]], "v": [[1.0], [1.0, 2.0]]}, "missing values, the first in row 1"),
        ({"i": [["a"]], "v": [[1.0]]}, "expected numbers"),
    ]:
        pq.write_table(pa.table(columns), path)
        with pytest.raises((TypeError, ValueError), match=text):
            list(data.read_parquet(path, label=None))


# -- interruptions ---------------------------------------------------------------------------------


def test_an_error_keeps_what_is_complete(svmlight, tmp_path, monkeypatch):
    expected = data.convert(svmlight, tmp_path / "expected", part_bytes=1000).fingerprint
    written, limit = [], 7
    real = conversion.write_part

    def write_part(path, batches, name, **options):
        if len(written) == limit:
            raise OSError("no space left")
        written.append(name)
        return real(path, batches, name, **options)

    monkeypatch.setattr(conversion, "write_part", write_part)
    with pytest.raises(OSError, match="no space left"):
        data.convert(svmlight, tmp_path / "rows", part_bytes=1000)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        data.open(tmp_path / "rows")
    limit = None
    again = data.convert(svmlight, tmp_path / "rows", part_bytes=1000)
    assert len(set(written)) == len(written) == len(expected)  # no part was written twice
    assert again.fingerprint == expected
    assert set(os.listdir(tmp_path / "rows")) == own_files(tmp_path / "rows")
    with pytest.raises(FileExistsError, match="already holds a data set"):
        data.convert(svmlight, tmp_path / "rows", part_bytes=1000)


def test_a_file_that_has_changed_is_read_again(tmp_path):
    good, bad = tmp_path / "a.svm", tmp_path / "b.svm"
    good.write_text("1 1:1\n")
    bad.write_text("1 1:x\n")
    with pytest.raises(ValueError, match="'x' is not a number"):
        data.convert([good, bad], tmp_path / "rows")
    bad.write_text("1 1:3\n")
    again = data.convert([good, bad], tmp_path / "rows")
    assert again.load()[0].toarray().tolist() == [[1.0], [3.0]]
    assert set(os.listdir(tmp_path / "rows")) == own_files(tmp_path / "rows")


# -- parts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", [False, True])
def test_parts_are_what_one_writer_writes(tmp_path, url):
    if url:
        pytest.importorskip("fsspec")
    folder = f"memory://{tmp_path.name}" if url else tmp_path / "parts"
    rng = np.random.default_rng(0)
    batches = [
        (rng.normal(size=(5, 3)), rng.choice(labels, 5), rng.random(5))
        for labels in (["c", "a"], ["b"], ["a", "d", "b"])
    ]
    for k in (2, 0, 1, 1):  # a task may be repeated
        data.write_part(folder, [batches[k]], f"part{k}", shard_bytes=60)
    data.write_part(folder, [(np.eye(3), [1, 2, 3])], "not-wanted")
    empty = data.write_part(folder, [])
    found = data.commit(folder, ["part0", empty, "part1", "part2"])
    found.verify()
    expected = data.write(tmp_path / "expected", batches)
    assert_same(found, expected)
    assert found._manifest.labels == expected._manifest.labels
    assert found.classes[found.codes[:]].tolist() == expected.y[:].tolist()
    if not url:
        assert set(os.listdir(folder)) == own_files(folder)
    data.write_part(folder, [batches[0]], "more")
    found.append(batches[1:2])  # does not remove the part
    whole = data.commit(folder, ["more"], append=True)
    assert whole.extends(found.fingerprint)
    assert len(whole) == 25
    whole.verify()
    assert found.y[:].tolist() == whole.y[:20].tolist()


def test_indices_are_as_wide_as_the_widest_part_needs(tmp_path):
    wide = sp.csr_matrix(([1.0, 2.0], [0, 2**33], [0, 2]), shape=(1, 2**33 + 1))
    for name, X in (("a", sp.eye(2, format="csr")), ("b", wide), ("c", sp.eye(3, format="csr"))):
        data.write_part(tmp_path, [(X, np.ones(X.shape[0]))], name)
    found = data.commit(tmp_path, ["a", "b", "c"])
    found.verify()
    assert [s.files["indices"].dtype for s in found._manifest.shards] == ["<i4", "<i8", "<i8"]
    assert found.block(0, 6).indices.tolist() == [0, 1, 0, 2**33, 0, 1, 2]


def test_sequences_in_parts(tmp_path):
    X = [np.full((n, 2), float(n)) for n in (2, 0, 3)]
    Y = [["b", "a"], [], ["c", "a", "b"]]
    for k in range(3):
        data.write_part(tmp_path, [(X[k : k + 1], Y[k : k + 1])], str(k))
    found = data.commit(tmp_path, ["1", "2", "0"])
    found.verify()
    assert [y.tolist() for y in found.sequences(0, 3)[1]] == [Y[1], Y[2], Y[0]]


def test_parts_that_do_not_fit_are_refused(tmp_path):
    data.write_part(tmp_path, [(np.eye(3), ["a", "b", "c"])], "first")
    for batch, text in [
        ((np.eye(3, dtype="f4"), ["a", "b", "c"]), "the type of features"),
        ((sp.eye(3, format="csr"), ["a", "b", "c"]), "layout"),
        ((np.eye(4), list("abcd")), "the number of features"),
        ((np.eye(3), [1, 2, 3]), "the kind of labels"),
        ((np.eye(3), None), "the kind of labels"),
        ((np.eye(3), ["a", "b", "c"], np.ones(3)), "whether there is a weight"),
    ]:
        data.write_part(tmp_path, [batch], "second")
        with pytest.raises(ValueError, match=f"part 'second' and part 'first' .* differ in {text}"):
            data.commit(tmp_path, ["first", "second"])
    with pytest.raises(FileNotFoundError, match="no part 'third'"):
        data.commit(tmp_path, ["first", "third"])
    with pytest.raises(ValueError, match="part 'first' is in the list twice"):
        data.commit(tmp_path, ["first", "first"])
    with pytest.raises(ValueError, match="no rows"):
        data.commit(tmp_path, [])
    with pytest.raises(ValueError, match="letters, digits"):
        data.write_part(tmp_path, [], "../x")
    with pytest.raises(FileNotFoundError, match="nothing to append to"):
        data.commit(tmp_path, ["first"], append=True)
    assert len(data.commit(tmp_path, ["first"])) == 3


def test_wrong_arguments(tmp_path):
    (tmp_path / "a.svm").write_text("1 1:1\n")
    with pytest.raises(
        TypeError, match=r"read by read_svmlight: got an unexpected keyword .*'label'"
    ):
        data.convert(tmp_path / "a.svm", tmp_path / "rows", label="y")
    with pytest.raises(TypeError, match=r"read by read_parquet: missing a required .*'label'"):
        data.convert(tmp_path / "a.parquet", tmp_path / "rows")
    with pytest.raises(ValueError, match=r"pass batches of a CSV file to data\.write"):
        data.convert(tmp_path / "a.csv.gz", tmp_path / "rows", label="y")
    with pytest.raises(ValueError, match="use 'svmlight' or 'parquet'"):
        data.convert(tmp_path / "a.svm", tmp_path / "rows", format="json")
    with pytest.raises(FileNotFoundError):
        data.convert(tmp_path / "b.svm", tmp_path / "rows")
