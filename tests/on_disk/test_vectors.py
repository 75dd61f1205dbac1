"""Vectors in Parquet and Arrow: lists of every kind become dense rows in their type."""

import numpy as np
import pytest

from maxmargin import LinearSVC, data

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

N, D = 600, 6


def vectors(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D))
    y = np.where(X[:, 0] > 0.0, "up", "down")
    return (np.clip(40 * X, -127, 127) if kind == np.int8 else X).astype(kind), y


def column(X, fixed):
    values = pa.array(X.ravel())
    if fixed:
        return pa.FixedSizeListArray.from_arrays(values, D)
    return pa.ListArray.from_arrays(pa.array(np.arange(0, X.size + 1, D), pa.int32()), values)


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.int8, np.uint8])
def test_lists_become_rows_in_their_type(tmp_path, kind, fixed):
    X, y = vectors(np.int8 if kind == np.uint8 else kind)
    X = X.astype(kind)
    table = pa.table({"vector": column(X, fixed), "y": y})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=170)
    for number, batches in enumerate((
        data.read_parquet(tmp_path / "t.parquet", label="y", rows=100),
        data.read_arrow(table, label="y"),
        data.read_arrow(iter([table.slice(0, 50), table.slice(50)]), label="y"),
        data.read_arrow(table.to_reader(max_chunksize=99), label="y"),
    )):  # fmt: skip
        loaded, labels, _ = data.write(tmp_path / f"rows{number}", batches).load()
        assert loaded.dtype == X.dtype
        assert np.array_equal(loaded, X)
        assert labels.tolist() == y.tolist()
    rows = data.convert(tmp_path / "t.parquet", tmp_path / "parts", label="y", n_jobs=1)
    assert rows.dtype == X.dtype
    assert rows.feature_names is None
    assert LinearSVC().fit(rows).score(rows) > 0.9


def test_lists_beside_columns_of_numbers(tmp_path):
    X, y = vectors(np.float32)
    age, text = np.arange(N, dtype=np.float32), column(X[:, :D], True)
    table = pa.table({"text": text, "age": age, "image": column(X + 1, False), "y": y})
    rows = data.write(tmp_path / "rows", data.read_arrow(table, label="y"))
    assert np.array_equal(rows.load()[0], np.column_stack([X, age, X + 1]))
    assert rows.dtype == np.float32
    assert rows.feature_names[D - 1 : D + 2] == [f"text_{D - 1}", "age", "image_0"]
    mixed = pa.table({"text": text, "age": np.arange(N), "y": y})
    assert data.write(tmp_path / "mixed", data.read_arrow(mixed, label="y")).dtype == np.float64


@pytest.mark.parametrize("fixed", [False, True])
def test_what_is_missing_or_ragged_is_refused_with_its_row(tmp_path, fixed):
    X, y = vectors(np.float32)
    lists = X.tolist()
    kind = pa.list_(pa.float32(), D) if fixed else pa.list_(pa.float32())
    for change, text in (
        (None, "'v' has missing lists, the first in row 317"),
        ([*lists[317][:-1], None], "'v' has missing values, the first in row 317"),
        (lists[317][:-1], "'v' has a list of 5 numbers in row 317, and of 6 in rows before"),
        ([*lists[317][:-1], np.nan], "NaN or infinite"),
    ):
        if fixed and change is not None and len(change) != D:
            continue
        wrong = [*lists[:317], change, *lists[318:]]
        table = pa.table({"v": pa.array(wrong, kind), "y": y})
        pq.write_table(table, tmp_path / "t.parquet", row_group_size=200)
        with pytest.raises(ValueError, match=text):
            data.write(
                tmp_path / "rows", data.read_parquet(tmp_path / "t.parquet", label="y", rows=100)
            )


def test_parquet_at_a_url():
    fsspec = pytest.importorskip("fsspec")
    X, y = vectors(np.int8)
    with fsspec.open("memory://lists/t.parquet", "wb") as file:
        pq.write_table(pa.table({"vector": column(X, True), "y": y}), file, row_group_size=200)
    url = "memory://lists/t.parquet"
    rows = data.write("memory://lists/rows", data.read_parquet(url, label="y", row_groups=[0, 2]))
    assert np.array_equal(rows.load()[0], np.concatenate([X[:200], X[400:]]))


def test_tables_of_others(tmp_path):
    X, y = vectors(np.float32)
    table = pa.table({"vector": column(X, True), "y": y})
    made = 0
    for name, package in (("datasets", "datasets"), ("lance", "lance"), ("polars", "polars")):
        try:
            module = __import__(package)
        except ImportError:
            continue
        if name == "datasets":
            source = module.Dataset(module.table.InMemoryTable(table))
        elif name == "lance":
            source = module.write_dataset(table, str(tmp_path / "t.lance"))
        else:
            source = module.from_arrow(table)
        loaded, labels, _ = data.write(tmp_path / name, data.read_arrow(source, label="y")).load()
        assert np.array_equal(loaded, X)
        assert labels.tolist() == y.tolist()
        made += 1
    if not made:
        pytest.skip("none of datasets, lance, and polars is installed")


@pytest.mark.parametrize("source", [[{"vector": [1.0], "y": 0}], 3, "table"])
def test_what_is_no_table_is_refused(source):
    with pytest.raises(TypeError, match="needs tables of Arrow"):
        next(data.read_arrow(source, label="y"))
