"""A store whose requests fail now and then: a fit has the same bits, and every failure is logged."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

from maxmargin import LinearSVC, data
from maxmargin.data import remote
from maxmargin.solvers import CuttingPlane

fsspec = pytest.importorskip("fsspec")

from fsspec.implementations.memory import MemoryFileSystem  # noqa: E402


class UnreliableFileSystem(MemoryFileSystem):
    """Files in memory; of every so many requests to read one fails."""

    protocol = "unreliable"
    every: ClassVar[int] = 0
    requests: ClassVar[int] = 0
    failures: ClassVar[int] = 0

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **kw: Any
    ) -> bytes:
        kind = type(self)
        kind.requests += 1
        if kind.every and kind.requests % kind.every == 0:
            kind.failures += 1
            raise ConnectionError("the connection was reset")
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
    monkeypatch.setattr(UnreliableFileSystem, "every", 0)
    monkeypatch.setattr(UnreliableFileSystem, "failures", 0)


def batches() -> Any:
    rng = np.random.default_rng(0)
    for _ in range(4):
        X = rng.normal(size=(2000, 5))
        yield X, np.where(X[:, 0] + rng.normal(size=2000) > 0, 1, -1)


def test_a_fit_has_the_same_bits_and_failures_are_logged(tmp_path, monkeypatch, caplog):
    local = data.write(tmp_path / "rows", batches(), shard_bytes=30_000)
    stored = data.write("unreliable://rows", batches(), shard_bytes=30_000)
    assert stored.fingerprint == local.fingerprint
    expected = LinearSVC(C=1e-2, solver=CuttingPlane(), loss="hinge").fit(local)
    monkeypatch.setattr(UnreliableFileSystem, "every", 7)
    with caplog.at_level("WARNING", logger="maxmargin.data"):
        found = LinearSVC(C=1e-2, solver=CuttingPlane(), loss="hinge").fit(
            data.open("unreliable://rows")
        )
    assert np.array_equal(found.coef_, expected.coef_)
    assert found.lower_bound_ == expected.lower_bound_
    assert UnreliableFileSystem.failures > 10
    assert len(caplog.records) == UnreliableFileSystem.failures
    assert "ConnectionError: the connection was reset" in caplog.records[0].getMessage()


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
