"""Models and checkpoints are written through pipes and devices, which must never be replaced by files."""

from __future__ import annotations

import os
import stat
import threading

import pytest

import maxmargin
from maxmargin import Checkpoint, LinearSVC
from maxmargin.command_line import main
from maxmargin.compiled.precompiled import Precompiled
from maxmargin.files import container

X, Y = [[0.0], [1.0], [3.0]], [0, 1, 1]


@pytest.fixture
def pipe(tmp_path):
    """A pipe, and all that is written to it once or more often."""
    path, found = tmp_path / "pipe", []
    os.mkfifo(path)
    hold = os.open(path, os.O_RDWR)  # neither end waits for the other

    def read():
        while part := os.read(hold, 1 << 20):
            found.append(part)
            if part.endswith(b"the end"):
                return

    reader = threading.Thread(target=read)
    reader.start()

    def content():
        os.write(hold, b"the end")
        reader.join()
        os.close(hold)
        return b"".join(found).removesuffix(b"the end")

    return path, content


@pytest.mark.parametrize("linked", [False, True])
def test_a_model_is_written_to_a_pipe(pipe, linked, tmp_path):
    path, content = pipe
    (tmp_path / "link").symlink_to(path)
    svc = LinearSVC().fit(X, Y)
    svc.save(tmp_path / "link" if linked else path)
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert (tmp_path / "link").is_symlink()
    (tmp_path / "model").write_bytes(content())
    assert maxmargin.load(tmp_path / "model").objective_ == svc.objective_
    assert len(list(tmp_path.iterdir())) == 3  # no partial file


def test_checkpoints_and_outputs_of_the_command_are_written_to_a_pipe(pipe, tmp_path):
    path, content = pipe
    LinearSVC(checkpoint=Checkpoint(path, seconds=None, iterations=1)).fit(X, Y)
    (tmp_path / "train.svm").write_text("1 1:1\n-1 1:-1\n")
    main(["fit", str(tmp_path / "train.svm"), "--output", str(path), "--checkpoint", str(path)])
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert content().count(b"maxmargin model") == 1


def test_a_device_stays_one(tmp_path):
    device = tmp_path / "null"
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))  # as /dev/null
        device.write_bytes(b"")
    except OSError:
        pytest.skip("devices cannot be made here")
    LinearSVC(checkpoint=device).fit(X, Y).save(device)
    assert stat.S_ISCHR(device.stat().st_mode)


@pytest.mark.parametrize("option", ["--output", "--checkpoint"])
def test_an_empty_name_is_refused_before_the_fit(option, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(LinearSVC, "fit", lambda *given, **options: pytest.fail("it was fitted"))
    (tmp_path / "train.svm").write_text("1 1:1\n-1 1:-1\n")
    assert main(["fit", str(tmp_path / "train.svm"), option, ""]) == 2
    assert f"{option} is empty: name a file" in capsys.readouterr().err
    with pytest.raises(ValueError, match="empty"):
        Checkpoint("")


def test_numba_need_not_be_installed_to_save(tmp_path, monkeypatch):
    def absent(name):
        raise container.PackageNotFoundError(name)

    monkeypatch.setattr(container, "version", absent)
    monkeypatch.setattr(container, "precompiled", lambda: Precompiled("compiled by Numba"))
    container._versions.cache_clear()
    try:
        LinearSVC(checkpoint=tmp_path / "checkpoint").fit(X, Y).save(tmp_path / "model")
        assert container._versions()["numba"] == "not installed"
    finally:
        container._versions.cache_clear()
    assert maxmargin.load(tmp_path / "model").classes_.tolist() == [0, 1]
