"""Readers and writers of one folder at the same time, and what killed writers leave behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import maxmargin
from maxmargin import LinearSVC
from maxmargin.data import DatasetError, storage

ROWS = np.eye(3)


def _append(folder, stop):
    while not stop.is_set():
        maxmargin.data.open(folder).append([(ROWS, [0, 1, 0])])


def _write(folder):
    maxmargin.data.write(folder, [(ROWS, [0, 1, 0])])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_readers_meet_a_writer(tmp_path):
    folder = tmp_path / "set"
    _write(folder)
    context = multiprocessing.get_context("fork")
    stop = context.Event()
    writer = context.Process(target=_append, args=(folder, stop))
    writer.start()
    try:
        lengths = []
        until = time.monotonic() + 3.0
        while time.monotonic() < until:
            lengths.append(len(maxmargin.data.open(folder)))
    finally:
        stop.set()
        writer.join(60)
    assert writer.exitcode == 0
    assert lengths == sorted(lengths)
    assert lengths[-1] > lengths[0]  # it did write in the meantime


def test_a_file_that_is_removed_while_the_folder_is_read(tmp_path, monkeypatch):
    """The same, at the worst moment."""
    _write(tmp_path / "set")
    (tmp_path / "set" / ".manifest.json.1-2").write_text("of another writer")
    is_file = storage._is_file

    def removed(entry):
        found = is_file(entry)
        if entry.name.startswith("."):
            os.unlink(entry.path)
        return found

    monkeypatch.setattr(storage, "_is_file", removed)
    assert len(maxmargin.data.open(tmp_path / "set")) == 3


KILLED = """
    import os, signal, sys
    import numpy as np
    import maxmargin
    from maxmargin.data import storage

    def killed(storage, before):
        os.kill(os.getpid(), signal.SIGKILL)

    storage.require_unchanged = killed  # the lock is held
    maxmargin.data.open(sys.argv[1]).append([(np.eye(3), [0, 1, 0])])
"""


def test_the_lock_of_a_killed_writer_is_taken_over(tmp_path):
    folder = tmp_path / "set"
    _write(folder)
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(KILLED), folder], check=False)
    assert done.returncode == -signal.SIGKILL
    assert (folder / storage.LOCK).exists()
    start = time.monotonic()
    maxmargin.data.open(folder).append([(ROWS, [0, 1, 0])])
    assert time.monotonic() - start < 3.0
    assert len(maxmargin.data.open(folder)) == 6
    assert not (folder / storage.LOCK).exists()


@pytest.mark.parametrize("who", ["alive", "elsewhere", "unknown"])
def test_who_holds_the_lock_is_said(who, tmp_path, monkeypatch):
    from maxmargin.files.writers import this_process

    folder = tmp_path / "set"
    _write(folder)
    monkeypatch.setattr(storage, "LOCK_ATTEMPTS", 2)
    here = socket.gethostname()
    text = {
        "alive": this_process(),
        "elsewhere": "1 2 other-machine boot pid:[1]",
        "unknown": "",
    }[who]
    (folder / storage.LOCK).write_text(text)
    words = {
        "alive": f"process {os.getpid()} on {here}",
        "elsewhere": "process 1 on other-machine",
        "unknown": "an unknown process",
    }[who]
    with pytest.raises(DatasetError, match=words):
        maxmargin.data.open(folder).append([(ROWS, [0, 1, 0])])
    assert (folder / storage.LOCK).read_text() == text


def test_a_lock_from_before_a_restart_of_the_machine_is_taken_over(tmp_path):
    from maxmargin.files.writers import this_process

    folder = tmp_path / "set"
    _write(folder)
    pid, start, host, _, pids = this_process().split(" ")
    (folder / storage.LOCK).write_text(f"{pid} {start} {host} another-boot {pids}")
    maxmargin.data.open(folder).append([(ROWS, [0, 1, 0])])
    assert not (folder / storage.LOCK).exists()


def test_old_partial_files_are_removed(tmp_path):
    folder = tmp_path / "set"
    _write(folder)
    model = tmp_path / "a.model"
    names = [folder / ".manifest.json.1-2", tmp_path / ".a.model.0123.partial"]
    recent = [folder / ".manifest.json.1-3", tmp_path / ".a.model.0124.partial"]
    for path in [*names, *recent]:
        path.write_text("cut off")
    for path in names:
        os.utime(path, (time.time() - 90_000,) * 2)
    maxmargin.data.open(folder).append([(ROWS, [0, 1, 0])])
    LinearSVC().fit(ROWS, [0, 1, 0]).save(model)
    assert not any(path.exists() for path in names)
    assert all(path.exists() for path in recent)  # perhaps of a writer that is at work
