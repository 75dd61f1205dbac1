"""Dense matrices in the type in which they are stored: float16, bfloat16, int8, uint8, or codes with a scale.

They are never converted as a whole. :func:`widen` converts a block of rows, which stays in a cache, into an
array of float32 or float64. All values of these types are exact in float32; those of codes with a scale,
``scale * code + offset``, are defined in float64.
"""

from __future__ import annotations

import sys
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from maxmargin.core.matrices import AnyArray, first_not_finite, not_finite, row_name
from maxmargin.core.vectors import Array

#: names of the types. NumPy has no bfloat16: its bits are stored as uint16
KINDS = ("float16", "bfloat16", "int8", "uint8")
#: bits of float16, as int32, at their places in float32: sign, exponent and fraction. The exponent is then
#: too small by 112
BITS16, FACTOR16 = np.int32(-0x70002000), np.float32(2.0**112)


class TypedRows:
    """Rows of one of these types. ``codes`` are the stored numbers, in any memory layout.

    ``scale`` and ``offset`` are None, or both one number, or one per column.
    """

    def __init__(
        self, codes: AnyArray, kind: str, scale: Array | None = None, offset: Array | None = None
    ) -> None:
        self.codes, self.kind, self.scale, self.offset = codes, kind, scale, offset

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return int(self.codes.shape[0]), int(self.codes.shape[1])

    @property
    def ndim(self) -> int:
        """Two, as a matrix has."""
        return 2

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the stored numbers."""
        return self.codes.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of the stored numbers."""
        return int(self.codes.nbytes)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Self:
        """Some rows: a view for a slice, a copy for indices or a mask."""
        codes = self.codes[rows]
        if codes.ndim != 2 or codes.shape[1] != self.shape[1]:
            raise IndexError(f"select rows by a slice, indices or a mask, not by {rows!r:.80}.")
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__, codes=codes)
        return new

    def toarray(self, dtype: npt.DTypeLike = np.float64) -> npt.NDArray[Any]:
        """The numbers that are meant, in a new array.

        Parameters
        ----------
        dtype : {float64, float32}, default float64
            Type of the array.

        Returns
        -------
        array of shape (n_rows, n_columns)
        """
        out = np.empty(self.shape, dtype)
        height = max(1, 2**17 // max(1, self.shape[1]))
        for lo in range(0, len(self), height):
            widen(self[lo : lo + height], out[lo : lo + height])
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        if copy is False:
            raise ValueError("the numbers that are meant are not stored: they need a new array.")
        kind = np.dtype(np.float64 if dtype is None else dtype)
        own = kind if kind in (np.float32, np.float64) else np.float64
        return self.toarray(own).astype(kind, copy=False)


class Quantized(TypedRows):
    """A matrix of 8-bit integers that stand for ``scale * codes + offset``.

    Linear estimators train on it and predict without a copy: they convert a block of rows at a time. Rows can
    be selected as in an array, so that scikit-learn's splitters and searches work, too.

    Parameters
    ----------
    codes : array of int8 or uint8, of shape (n_samples, n_features)
        What is stored. It is not copied, and may be a memory map.
    scale : float or array of shape (n_features,)
        The step between two codes: one number, or one per column.
    offset : float or array of shape (n_features,), default 0
        What the code 0 stands for.

    Attributes
    ----------
    codes, scale, offset : array
        As given; scale and offset in float64.
    shape : (n_samples, n_features)
    dtype : dtype
        Type of the codes.
    nbytes : int
        Bytes of the codes.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.data import Quantized
    >>> vectors = np.array([[0.5, -2.0], [-1.0, 1.0], [0.25, 2.0]])
    >>> scale = np.abs(vectors).max(axis=0) / 127
    >>> X = Quantized(np.rint(vectors / scale).astype(np.int8), scale)
    >>> X.shape, X.dtype, X.nbytes
    ((3, 2), dtype('int8'), 6)
    >>> X[:2].toarray().round(1)
    array([[ 0.5, -2. ],
           [-1. ,  1. ]])
    """

    scale: Array
    offset: Array

    def __init__(self, codes: Any, scale: Any, offset: Any = 0) -> None:
        codes = np.asanyarray(codes)
        if codes.ndim != 2 or codes.dtype not in (np.int8, np.uint8):
            raise ValueError(
                f"codes must be a matrix of int8 or uint8; it is {codes.dtype} of shape {codes.shape}."
            )
        columns = int(codes.shape[1])
        steps = _per_column(scale, "scale", columns)
        super().__init__(codes, codes.dtype.name, steps, _per_column(offset, "offset", columns))

    def __repr__(self) -> str:
        def shown(values: Array) -> str:
            return f"{float(values):g}" if values.ndim == 0 else f"<{len(values)} numbers>"

        return (
            f"Quantized(<{self.shape[0]} x {self.shape[1]} {self.dtype}>, scale={shown(self.scale)}, "
            f"offset={shown(self.offset)})"
        )


def _per_column(given: object, name: str, columns: int) -> Array:
    values = np.array(given, dtype=np.float64)
    if values.shape not in ((), (columns,)):
        raise ValueError(
            f"{name} has shape {values.shape}; it must be one number, or one for each of the {columns} "
            "columns of codes."
        )
    with np.errstate(over="ignore"):
        fine = np.isfinite((512.0 * values).astype(np.float32))
    if not fine.all():
        at = int(np.argmin(fine))
        where = f", column {at}" if values.ndim else ""
        raise ValueError(
            f"{name} must be finite, and codes times it at most 3e38: it is {values.reshape(-1)[at]}{where}."
        )
    return values


def typed_rows(X: Any) -> TypedRows | None:
    """The rows of a matrix of one of these types, without a copy; None for everything else.

    That is an array, a :class:`Quantized` matrix, or a tensor of PyTorch in the memory of the CPU.
    """
    if isinstance(X, TypedRows):
        return X
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(X, torch.Tensor):
        X = _of_tensor(X, torch)
        if isinstance(X, TypedRows):
            return X
    if not isinstance(X, np.ndarray) or X.ndim != 2:
        return None
    if X.dtype.name == "bfloat16":  # of ml_dtypes
        return TypedRows(X.view(np.uint16), "bfloat16")
    return TypedRows(X, X.dtype.name) if X.dtype.name in KINDS else None


def as_array(rows: TypedRows) -> Any:
    """The array that these rows are views of, in the type of ml_dtypes for bfloat16 if it is installed; rows
    with a scale unchanged."""
    if rows.kind == "bfloat16":
        try:
            import ml_dtypes
        except ImportError:
            return rows
        return rows.codes.view(ml_dtypes.bfloat16)
    return rows if isinstance(rows, Quantized) else rows.codes


def _of_tensor(X: Any, torch: Any) -> Any:
    """The array that shares the memory of a tensor, or the rows of one in bfloat16."""
    if X.device.type != "cpu":
        raise ValueError(f"X is a tensor on the device {X.device}: pass X.cpu().")
    X = X.detach()
    if X.dtype == torch.bfloat16 and X.ndim == 2:
        return TypedRows(X.view(torch.int16).numpy().view(np.uint16), "bfloat16")
    return X.numpy()


def widen(rows: TypedRows, out: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Convert all of these rows into ``out``, an array of float32 or float64 with C order, and return it.

    float16 is converted by its bits, which takes half the time of NumPy; infinities and NaN become large
    numbers, see :func:`check_finite`.
    """
    codes = rows.codes
    if rows.kind in ("int8", "uint8"):
        np.copyto(out, codes)
    elif out.dtype != np.float32:
        out[...] = widen(rows, np.empty(codes.shape, np.float32))
    else:
        bits = out.view(np.int32)
        np.copyto(bits, codes.view(codes.dtype.str[:1] + "i2"))
        if rows.kind == "bfloat16":
            np.left_shift(bits, 16, out=bits)
        else:
            np.left_shift(bits, 13, out=bits)
            np.bitwise_and(bits, BITS16, out=bits)
            np.multiply(out, FACTOR16, out=out)
    if rows.scale is not None and rows.offset is not None:
        np.multiply(out, rows.scale.astype(out.dtype), out=out)
        if rows.offset.any():
            np.add(out, rows.offset.astype(out.dtype), out=out)
    return out


def check_finite(rows: TypedRows, first: int = 0, name: str = "X") -> None:
    """Raise ValueError unless all entries are finite; ``first`` is the number of the first row."""
    if rows.kind in ("int8", "uint8"):
        return
    codes: AnyArray = rows.codes
    if rows.kind == "bfloat16":
        codes = widen(rows, np.empty(codes.shape, np.float32))
    at = first_not_finite(codes)
    if at >= 0:
        i, j = divmod(at, codes.shape[1])
        raise not_finite(name, codes[i, j], row_name(first + i), j)
