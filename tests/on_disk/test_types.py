"""Narrow types on disk: stored as they are, read in place from files of NumPy, and trained as in memory."""

import pickle

import numpy as np
import pytest

from maxmargin import LinearSVC, data
from maxmargin.data import Quantized, as_design, sharded
from maxmargin.data.typed_design import TypedDesign
from maxmargin.data.typed_rows import typed_rows

N, D = 4000, 24


def vectors():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)) @ rng.normal(size=(D, D)) / 4.0
    y = np.where(X[:, 0] + rng.normal(size=N) > 0.0, "up", "down")
    return X, y


def matrix(kind):
    X, _ = vectors()
    if kind == "float16":
        return X.astype(np.float16)
    if kind == "bfloat16":
        return X.astype(pytest.importorskip("ml_dtypes").bfloat16)
    if kind == "uint8":
        return np.clip(128 + 20 * X, 0, 255).astype(np.uint8)
    codes = np.clip(20 * X, -127, 127).astype(np.int8)
    if kind == "int8":
        return codes
    columns = np.linspace(0.01, 0.1, D)
    return Quantized(codes, 0.05) if kind == "scale" else Quantized(codes, columns, 0.5 - columns)


KINDS = ("float16", "bfloat16", "int8", "uint8", "scale", "scales")


def stored(X):
    """The bytes of a matrix, and what its numbers mean."""
    rows = typed_rows(X)
    meaning = [
        None if v is None else np.broadcast_to(v, D).tolist() for v in (rows.scale, rows.offset)
    ]
    return rows.kind, rows.codes.tobytes(), meaning


def batches(X, y, size=700):
    for lo in range(0, N, size):
        yield X[lo : lo + size], y[lo : lo + size]


@pytest.mark.parametrize("kind", KINDS)
def test_a_round_trip_is_byte_equal_and_as_large_as_the_matrix(tmp_path, kind):
    X, (_, y) = matrix(kind), vectors()
    data.write(tmp_path / "rows", batches(X, y), shard_bytes=40_000)
    rows = data.open(tmp_path / "rows")
    rows.verify()
    loaded, labels, _ = rows.load()
    assert stored(loaded) == stored(X)
    assert labels.tolist() == y.tolist()
    features = sum(f.stat().st_size for f in (tmp_path / "rows").glob("*.features.bin"))
    assert features == typed_rows(X).codes.nbytes
    rows.append(batches(X[:100], y[:100]))
    assert stored(rows.load()[0][N:]) == stored(X[:100])
    which = np.array([N + 5, 3, 2999, 3])
    taken = rows.take(which).block(0, 4).X
    np.testing.assert_array_equal(
        taken, as_design(TypedDesign(typed_rows(X))).take(which % N).block(0, 4).X
    )


@pytest.mark.parametrize("kind", KINDS)
def test_products_are_bit_identical_to_those_in_memory(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(sharded, "CHUNK_BYTES", 30_000)
    monkeypatch.setattr("maxmargin.data.typed_design.ENTRIES", 300 * D)
    X, (_, y) = matrix(kind), vectors()
    rows = data.write(tmp_path / "rows", batches(X, y), shard_bytes=37_000)
    memory, rng = TypedDesign(typed_rows(X)), np.random.default_rng(1)
    for lo, hi in ((0, N), (17, 3500), (900, 901)):
        for shape in ((D,), (D, 3)):
            w = rng.normal(size=shape)
            assert np.array_equal(rows.dot(w, lo, hi), memory.dot(w, lo, hi))
            coef = rng.normal(size=(hi - lo, *shape[1:])) * (
                rng.random((hi - lo, *shape[1:])) < 0.3
            )
            ours, theirs = np.zeros(shape), np.zeros(shape)
            rows.accumulate(coef, lo, hi, ours)
            memory.accumulate(coef, lo, hi, theirs)
            assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("kind", KINDS)
def test_models_from_disk_are_within_the_certificate_of_those_in_memory(tmp_path, kind):
    X, (_, y) = matrix(kind), vectors()
    rows = data.write(tmp_path / "rows", batches(X, y))
    plain = X.toarray() if isinstance(X, Quantized) else X.astype(np.float64)
    for loss in ("squared_hinge", "hinge"):
        one, other = (
            LinearSVC(loss=loss, C=0.01).fit(rows),
            LinearSVC(loss=loss, C=0.01).fit(plain, y),
        )
        assert one.converged_
        assert one.lower_bound_ <= other.objective_ * (1 + 1e-9)
        assert other.lower_bound_ <= one.objective_ * (1 + 1e-9)
        np.testing.assert_array_equal(one.predict(rows), one.predict(plain))


@pytest.mark.parametrize("ending", ["npy", "npz"])
@pytest.mark.parametrize("kind", [*KINDS, "float32", "float64"])
def test_files_of_numpy_are_read_in_place(tmp_path, kind, ending):
    _, y = vectors()
    X = vectors()[0].astype(kind) if kind in ("float32", "float64") else matrix(kind)
    codes, meaning = getattr(X, "codes", X), {}
    if isinstance(X, Quantized):
        meaning = {"scale": X.scale, "offset": X.offset}
    path = tmp_path / f"x.{ending}"
    if ending == "npy":
        np.save(path, codes)
        rows = data.open(path, y=y, **meaning)
    else:
        np.savez(path, X=codes, y=y, **meaning)
        rows = data.open(path)
    written = data.write(tmp_path / "rows", batches(X, y))
    assert rows.shape == (N, D)
    assert rows.largest_square == pytest.approx(written.largest_square, rel=1e-12)
    one, other = LinearSVC(C=0.01).fit(rows), LinearSVC(C=0.01).fit(written)
    assert np.array_equal(one.coef_, other.coef_)
    again = pickle.loads(pickle.dumps(rows))
    assert np.array_equal(again.dot(np.ones(D), 5, 300), written.dot(np.ones(D), 5, 300))
    assert again.y[3:5].tolist() == y[3:5].tolist()
    rows.verify()
    assert sorted(tmp_path.glob("x.*")) == [path]
    with pytest.raises(ValueError, match="is not changed"):
        rows.append([])


def test_labels_in_a_file(tmp_path):
    X, y = vectors()
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", np.where(y == "up", 1, -1).astype(np.int8))
    rows = data.open(tmp_path / "x.npy", y=tmp_path / "y.npy")
    assert rows.classes.tolist() == [-1, 1]
    assert LinearSVC(C=0.01).fit(rows).score(rows) > 0.6
    assert LinearSVC(C=0.01).fit(data.open(tmp_path / "x.npy"), y).classes_.tolist() == [
        "down",
        "up",
    ]


def test_an_object_store(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    X, (_, y) = matrix("scales"), vectors()
    with fsspec.open("memory://types/x.npy", "wb") as file:
        np.save(file, X.codes)
    url = "memory://types/x.npy"
    in_place = data.open(url, y=y, scale=X.scale, offset=X.offset)
    written = data.write("memory://types/rows", batches(X, y), shard_bytes=40_000)
    w = np.linspace(-1.0, 1.0, D)
    local = TypedDesign(typed_rows(X)).dot(w, 3, 3500)
    assert np.array_equal(in_place.dot(w, 3, 3500), local)
    assert np.array_equal(written.dot(w, 3, 3500), local)
    assert stored(written.load()[0]) == stored(X)
    with pytest.raises(ValueError, match="in the environment"):
        data.open(url, y=y, storage_options={"key": "secret"})


def test_refusals_name_the_row_or_the_way_out(tmp_path):
    X, y = vectors()
    bad = X.astype(np.float16)
    bad[2345, 7] = np.nan
    with pytest.raises(ValueError, match=r"batch 3: .*row 245, column 7"):
        data.write(tmp_path / "bad", batches(bad, y))
    np.save(tmp_path / "bad.npy", bad)
    with pytest.raises(ValueError, match=r"bad\.npy.*row 2345, column 7"):
        data.open(tmp_path / "bad.npy", y=y)
    large = X.copy()
    large[11, 0] = 1e6
    with pytest.raises(ValueError, match="row 11"):
        data.write(tmp_path / "large", [(large, y)], dtype="float16")
    codes = matrix("int8")
    with pytest.raises(
        ValueError, match="batch 1: X has type int8, but previous batches have float16"
    ):
        data.write(tmp_path / "mixed", [(X.astype(np.float16), y), (codes, y)])
    with pytest.raises(ValueError, match="batch 1: the scale or offset"):
        data.write(tmp_path / "scales", [(Quantized(codes, 0.1), y), (Quantized(codes, 0.2), y)])
    with pytest.raises(ValueError, match="dtype is int8"):
        data.write(tmp_path / "cast", [(X, y)], dtype="int8")
    np.savez_compressed(tmp_path / "c.npz", X=X, y=y)
    np.savez(tmp_path / "n.npz", a=X, b=y)
    np.save(tmp_path / "f.npy", np.asfortranarray(X))
    np.save(tmp_path / "i.npy", np.arange(12).reshape(3, 4))
    (tmp_path / "text.npy").write_text("numbers")
    whole = (tmp_path / "bad.npy").read_bytes()
    (tmp_path / "short.npy").write_bytes(whole[:-1])
    for name, why in (
        ("c.npz", "is compressed"), ("n.npz", "must have the name 'X'"), ("f.npy", "Fortran"),
        ("i.npy", "holds int64"), ("text.npy", "not a file of NumPy"), ("short.npy", "truncated"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=why):
            data.open(tmp_path / name)
    rows = data.write(tmp_path / "rows", [(codes, y)])
    with pytest.raises(ValueError, match=r"y: for \.npy and \.npz files only"):
        data.open(tmp_path / "rows", y=y)
    np.save(tmp_path / "k.npy", codes)
    with pytest.raises(ValueError, match="scale has shape"):
        data.open(tmp_path / "k.npy", scale=np.ones(3))
    assert rows.dtype == np.int8


def test_a_cast_on_the_way_to_disk(tmp_path):
    X, y = vectors()
    rows = data.write(tmp_path / "half", batches(X, y), dtype="float16")
    assert stored(rows.load()[0]) == stored(X.astype(np.float16))
    wide = data.write(tmp_path / "wide", batches(matrix("scales"), y), dtype="float32")
    assert np.array_equal(wide.load()[0], matrix("scales").toarray().astype(np.float32))


def test_parts_of_one_type(tmp_path):
    X, y = matrix("scales"), vectors()[1]
    for name in ("a", "b"):
        data.write_part(tmp_path / "rows", batches(X, y), name)
    data.write_part(tmp_path / "rows", batches(Quantized(X.codes, 0.5), y), "other")
    with pytest.raises(ValueError, match="the scale of codes"):
        data.commit(tmp_path / "rows", ["a", "other"])
    rows = data.commit(tmp_path / "rows", ["a", "b"])
    assert stored(rows.load()[0]) == stored(Quantized(np.tile(X.codes, (2, 1)), X.scale, X.offset))


def test_a_flipped_byte_is_found(tmp_path):
    X, y = matrix("float16"), vectors()[1]
    data.write(tmp_path / "rows", [(X, y)])
    [file] = (tmp_path / "rows").glob("*.features.bin")
    content = bytearray(file.read_bytes())
    content[2 * (1234 * D + 5) : 2 * (1234 * D + 5) + 2] = np.float16(np.inf).tobytes()
    file.write_bytes(content)
    with pytest.raises(ValueError, match="wrong checksum"):
        data.open(tmp_path / "rows").verify()
    with pytest.raises(ValueError, match="row 1234, column 5"):
        LinearSVC().fit(data.open(tmp_path / "rows"))
