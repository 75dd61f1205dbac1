"""Rows in narrow types mean the same numbers as their conversion by NumPy, exactly."""

import pickle

import numpy as np
import pytest
from sklearn.model_selection import train_test_split

from maxmargin.data import Quantized
from maxmargin.data.typed_rows import check_finite, typed_rows, widen

#: every finite float16, subnormal ones, too
ALL_HALVES = np.arange(65536, dtype=np.uint32).astype(np.uint16).view(np.float16)
HALVES = ALL_HALVES[np.isfinite(ALL_HALVES)].reshape(-1, 62)


def both(X):
    rows = typed_rows(X)
    return [widen(rows, np.empty(rows.shape, kind)) for kind in (np.float32, np.float64)]


@pytest.mark.parametrize("kind", ["float16", "int8", "uint8"])
def test_every_number_of_a_type_is_exact(kind):
    X = HALVES if kind == "float16" else np.arange(256, dtype=np.uint8).view(kind).reshape(8, 32)
    for out in both(X):
        np.testing.assert_array_equal(out, X.astype(out.dtype))
        np.testing.assert_array_equal(np.signbit(out), np.signbit(X))


@pytest.mark.parametrize("view", [lambda X: X.T, lambda X: X[::-2, ::3], lambda X: X[:, 1:]])
def test_any_memory_layout_and_byte_order(view):
    for X in (HALVES, HALVES.astype(">f2")):
        for out in both(view(X)):
            np.testing.assert_array_equal(out, view(X).astype(out.dtype))


def test_bfloat16_of_ml_dtypes():
    kind = pytest.importorskip("ml_dtypes").bfloat16
    X = np.arange(65536, dtype=np.uint32).astype(np.uint16).view(kind)
    X = X[np.isfinite(X.astype(np.float32))].reshape(-1, 32)
    for out in both(X):
        np.testing.assert_array_equal(out, X.astype(out.dtype))
    X[3, 5] = np.inf
    with pytest.raises(ValueError, match="inf in row 3, column 5"):
        check_finite(typed_rows(X))


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "int8", "uint8"])
def test_tensors_share_their_memory(kind):
    torch = pytest.importorskip("torch")
    X = (torch.arange(60).reshape(10, 6) / 2).to(getattr(torch, kind)).requires_grad_(False)
    rows = typed_rows(X)
    np.testing.assert_array_equal(rows.toarray(), X.double().numpy())
    X[4, 2] = 7
    assert rows.toarray()[4, 2] == 7.0
    with pytest.raises(ValueError, match=r"pass X\.cpu\(\)"):
        typed_rows(X.to("meta"))


@pytest.mark.parametrize("per_column", [False, True])
@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_codes_with_a_scale(per_column, kind):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (50, 7), dtype=np.uint8).view(kind)
    scale, offset = (rng.uniform(0.1, 2.0, 7), rng.normal(size=7)) if per_column else (0.5, -3.0)
    X = Quantized(codes, scale, offset)
    meant = np.asarray(scale) * codes.astype(float) + np.asarray(offset)
    np.testing.assert_array_equal(X.toarray(), meant)
    np.testing.assert_allclose(X.toarray(np.float32), meant, rtol=0, atol=1e-4)
    np.testing.assert_array_equal(np.asarray(X), meant)
    np.testing.assert_array_equal(X[10:20].toarray(), meant[10:20])
    some = np.array([4, 1, 1])
    np.testing.assert_array_equal(X[some].toarray(), meant[some])
    assert np.shares_memory(X[10:20].codes, codes)
    again = pickle.loads(pickle.dumps(X))
    np.testing.assert_array_equal(again.toarray(), meant)
    train, test, *_ = train_test_split(X, np.arange(50), random_state=0)
    assert isinstance(train, Quantized)
    assert train.shape[0] + test.shape[0] == 50


@pytest.mark.parametrize(
    ("codes", "scale", "offset", "match"),
    [
        (np.zeros((2, 3)), 1.0, 0.0, "codes must be a matrix of int8 or uint8"),
        (np.zeros(3, np.int8), 1.0, 0.0, "codes must be a matrix"),
        (np.zeros((2, 3), np.int8), np.ones(2), 0.0, "one for each of the 3 columns"),
        (np.zeros((2, 3), np.int8), [1.0, np.nan, 1.0], 0.0, "it is nan, column 1"),
        (np.zeros((2, 3), np.int8), 1e38, 0.0, "scale must be finite, and codes times it"),
        (np.zeros((2, 3), np.int8), 1.0, np.inf, "offset must be finite"),
    ],
)
def test_wrong_scales_are_refused(codes, scale, offset, match):
    with pytest.raises(ValueError, match=match):
        Quantized(codes, scale, offset)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_infinite_float16_are_found(value):
    X = np.ones((20, 30), np.float16)
    check_finite(typed_rows(X))
    X[7, 11] = value
    with pytest.raises(ValueError, match=rf"{value} in row 107, column 11"):
        check_finite(typed_rows(X), first=100)
