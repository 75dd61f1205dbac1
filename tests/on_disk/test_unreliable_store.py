"""A store whose requests fail, hang, or return flipped bits now and then: a fit has the same bits, and every
failure is logged."""

from __future__ import annotations

import threading
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import LinearSVC, data
from maxmargin.data import remote
from maxmargin.solvers import CuttingPlane

fsspec = pytest.importorskip("fsspec")

from fsspec.implementations.memory import MemoryFileSystem  # noqa: E402


class UnreliableFileSystem(MemoryFileSystem):
    """Files in memory; of every so many requests to read one fails, as ``how`` says."""

    protocol = "unreliable"
    every: ClassVar[int] = 0
    how: ClassVar[str] = "reset"
    requests: ClassVar[int] = 0
    failures: ClassVar[int] = 0

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **kw: Any
    ) -> bytes:
        kind = type(self)
        kind.requests += 1
        if kind.every and kind.requests % kind.every == 0:
            kind.failures += 1
            if kind.how == "reset":
                raise ConnectionError("the connection was reset")
            if kind.how == "hangs":
                threading.Event().wait()
            flipped = bytearray(super().cat_file(path, start, end, **kw))
            flipped[kind.requests % len(flipped)] ^= 1 << kind.requests % 8
            return bytes(flipped)
        content: bytes = super().cat_file(path, start, end, **kw)
        return content


class PlainFileSystem(UnreliableFileSystem):
    """A store that cannot create an object only if there is none."""

    protocol = "plain"

    def pipe_file(self, path: str, value: bytes) -> None:  # type: ignore[override]
        super().pipe_file(path, value)


@pytest.fixture(autouse=True)
def _store(monkeypatch):
    for kind in (UnreliableFileSystem, PlainFileSystem):
        fsspec.register_implementation(kind.protocol, kind, clobber=True)
    monkeypatch.setattr(remote, "PAUSES", (0.0, 0.0, 0.0))
    monkeypatch.setattr(remote, "SECONDS", 0.2)
    monkeypatch.setattr(UnreliableFileSystem, "every", 0)
    monkeypatch.setattr(UnreliableFileSystem, "how", "reset")
    monkeypatch.setattr(UnreliableFileSystem, "failures", 0)


def batches() -> Any:
    rng = np.random.default_rng(0)
    for _ in range(4):
        X = rng.normal(size=(2000, 5))
        yield X, np.where(X[:, 0] + rng.normal(size=2000) > 0, 1, -1)


@pytest.mark.parametrize(
    ("how", "every", "said"),
    [
        ("reset", 7, "ConnectionError: the connection was reset"),
        ("hangs", 100, "TimeoutError: the store has not answered for 0.2 seconds"),
        ("flips", 7, "wrong checksum: the file was modified after it was written, or damaged on"),
    ],
)
def test_a_fit_has_the_same_bits_and_failures_are_logged(
    tmp_path, monkeypatch, caplog, how, every, said
):
    local = data.write(tmp_path / "rows", batches(), shard_bytes=30_000)
    stored = data.write(f"unreliable://{how}", batches(), shard_bytes=30_000)
    assert stored.fingerprint == local.fingerprint
    expected = LinearSVC(C=1e-2, solver=CuttingPlane(), loss="hinge").fit(local)
    opened = data.open(f"unreliable://{how}")
    monkeypatch.setattr(UnreliableFileSystem, "every", every)
    monkeypatch.setattr(UnreliableFileSystem, "how", how)
    with caplog.at_level("WARNING", logger="maxmargin.data"):
        found = LinearSVC(C=1e-2, solver=CuttingPlane(), loss="hinge").fit(opened)
    assert np.array_equal(found.coef_, expected.coef_)
    assert found.lower_bound_ == expected.lower_bound_
    assert UnreliableFileSystem.failures > (10 if every == 7 else 1)
    assert len(caplog.records) == UnreliableFileSystem.failures
    assert said in caplog.records[0].getMessage()


@pytest.mark.parametrize("shape", [(20, 5), (30_000, 5)])
@pytest.mark.parametrize("sparse", [False, True])
def test_no_flipped_bit_passes(monkeypatch, shape, sparse):
    """Of whole files, of a few rows, and of the ends of several sections; of labels and weights."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=shape), rng.integers(0, 2, shape[0])
    X = sp.csr_matrix(X) if sparse else X
    data.write("unreliable://flips", [(X, y, np.ones(shape[0]))], overwrite=True)
    opened, n = data.open("unreliable://flips"), shape[0]
    reads = [
        *(lambda lo=lo, hi=hi: opened.block(lo, hi) for lo, hi in [(0, n), (3, 4), (n - 2, n)]),
        lambda: opened.dot(np.ones(5), n // 3, n),
        lambda: opened.take(np.array([n - 1, 2])),
        lambda: opened.y[n // 2 : n // 2 + 3],
        lambda: opened.weight[n - 1 :],
    ]
    for read in reads:
        read()
    monkeypatch.setattr(UnreliableFileSystem, "every", 1)
    monkeypatch.setattr(UnreliableFileSystem, "how", "flips")
    for read in reads:
        with pytest.raises(data.DatasetError, match=r"[0-9-]+\.\w+\.bin: wrong checksum"):
            read()
    assert UnreliableFileSystem.failures >= len(reads) * (1 + len(remote.PAUSES))


def test_a_store_that_never_answers_is_an_error(monkeypatch):
    data.write("unreliable://silent", batches())
    monkeypatch.setattr(remote, "SECONDS", 0.05)
    monkeypatch.setattr(UnreliableFileSystem, "every", 1)
    monkeypatch.setattr(UnreliableFileSystem, "how", "hangs")
    with pytest.raises(OSError, match=r"the store has not answered for 0\.05 seconds"):
        data.open("unreliable://silent")
    assert UnreliableFileSystem.failures == 1 + len(remote.PAUSES)


def test_a_store_that_always_fails_is_an_error(monkeypatch):
    data.write("unreliable://dead", batches())
    monkeypatch.setattr(UnreliableFileSystem, "every", 1)
    with pytest.raises(OSError, match=r"unreliable://dead/manifest\.json cannot be read"):
        data.open("unreliable://dead")
    assert UnreliableFileSystem.failures == 1 + len(remote.PAUSES)


def test_what_is_missing_is_not_asked_for_again():
    before = UnreliableFileSystem.requests
    with pytest.raises(FileNotFoundError):
        data.open("unreliable://nothing")
    assert UnreliableFileSystem.requests == before + 1


def test_a_store_without_locks_is_refused():
    with pytest.raises(
        data.DatasetError, match="cannot create an object only if it does not exist"
    ):
        data.write("plain://rows", batches())


def test_a_conversion_survives_failures_and_is_refused_before_it_begins(tmp_path, monkeypatch):
    text = tmp_path / "rows.svm"
    text.write_text("".join(f"{k % 2} 1:{k} 3:0.5\n" for k in range(300)))
    local = data.convert(text, tmp_path / "rows", part_bytes=500)
    monkeypatch.setattr(UnreliableFileSystem, "every", 5)
    stored = data.convert(text, "unreliable://converted", part_bytes=500)
    assert UnreliableFileSystem.failures > 3
    monkeypatch.setattr(UnreliableFileSystem, "every", 0)
    assert stored.fingerprint == local.fingerprint
    stored.verify()
    names = UnreliableFileSystem().ls("unreliable://converted", detail=False)
    assert not [name for name in names if "part-" in name or "writer.lock" in name]
    with pytest.raises(data.DatasetError, match="cannot create an object only if"):
        data.convert(text, "plain://converted")
    assert not UnreliableFileSystem().exists("plain://converted/manifest.json")
