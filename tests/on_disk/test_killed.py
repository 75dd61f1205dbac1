"""What a writer leaves behind that was killed, and how much memory one takes."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

from maxmargin import data
from maxmargin.data import storage

posix = pytest.mark.skipif(os.name != "posix", reason="signals, locks and limits of POSIX")

WRITER = """
import sys, time
import numpy as np
from maxmargin import data

def batches():
    for k in range(1000):
        yield np.full((100, 3), float(k)), np.full(100, k % 2)
        if k == 20:
            print("now", flush=True)
            time.sleep(60)

how, path = sys.argv[1:]
if how == "append":
    data.open(path).append(batches(), shard_bytes=4000)
else:
    data.write(path, batches(), shard_bytes=4000, overwrite=True)
"""


def start(code, *args):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, args)],
        stdout=subprocess.PIPE,
        text=True,
    )


def test_of_two_appends_at_the_same_time_one_fails(tmp_path):
    first = data.write(tmp_path, [(np.eye(3), ["a", "b", "a"])])
    second = data.open(tmp_path)

    def batches():
        yield np.eye(3), ["a", "a", "a"]
        second.append([(np.zeros((2, 3)), ["c", "b"])], shard_bytes=24)
        yield np.ones((3, 3)), ["d", "d", "d"]

    with pytest.raises(data.DatasetError, match="another writer has changed the data set"):
        first.append(batches(), shard_bytes=24)
    whole = data.open(tmp_path)
    whole.verify()
    assert whole.fingerprint == second.fingerprint
    assert whole.y[:].tolist() == ["a", "b", "a", "c", "b"]
    names = {file.name for shard in whole._manifest.shards for file in shard.files.values()}
    assert set(os.listdir(tmp_path)) == names | {"manifest.json"}


def test_of_many_commits_at_the_same_moment_one_succeeds(tmp_path):
    data.write(tmp_path, [(np.eye(1), [0])])
    local = storage.LocalStorage(tmp_path)
    before, done = local.content("manifest.json"), []

    def commit(k):
        with contextlib.suppress(data.DatasetError):
            local.commit(b"%d" % k, before)
            done.append(k)

    threads = [threading.Thread(target=commit, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 1
    assert local.content("manifest.json") == b"%d" % done[0]


def test_a_lock_of_a_killed_writer(tmp_path, monkeypatch):
    written = data.write(tmp_path, [(np.eye(1), [0])])
    (tmp_path / "manifest.lock").touch()
    monkeypatch.setattr(storage, "LOCK_ATTEMPTS", 2)
    with pytest.raises(
        data.DatasetError, match=r"manifest\.lock is held by an unknown.* killed, remove the file"
    ):
        written.append([(np.eye(1), [0])])
    (tmp_path / "manifest.lock").unlink()
    assert written.append([(np.eye(1), [0])]).shape == (2, 1)


@posix
@pytest.mark.parametrize("how", ["append", "write"])
def test_kill_in_the_middle(tmp_path, how):
    X = np.random.default_rng(0).normal(size=(50, 3))
    before = data.write(tmp_path, [(X, np.arange(50) % 2)])
    process = start(WRITER, how, tmp_path)
    try:
        assert process.stdout.readline() == "now\n"
        os.kill(process.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    leftovers = [name for name in os.listdir(tmp_path) if name.startswith("0002-")]
    assert leftovers  # some shards were complete
    again = data.open(tmp_path)
    assert again.fingerprint == before.fingerprint
    again.verify()
    assert np.array_equal(again.load()[0], X)
    again.append([(X, np.arange(50) % 2)])
    again.verify()
    names = {file.name for shard in again._manifest.shards for file in shard.files.values()}
    assert set(os.listdir(tmp_path)) == names | {"manifest.json"}  # the leftovers are gone


def test_a_manifest_that_cannot_be_moved(tmp_path, monkeypatch):
    before = data.write(tmp_path, [(np.eye(3), [0, 1, 2])])
    names = set(os.listdir(tmp_path))

    def fail(*args):
        raise OSError("no")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no"):
        before.append([(np.eye(3), [0, 1, 2])])
    assert set(os.listdir(tmp_path)) == names
    assert data.open(tmp_path).fingerprint == before.fingerprint


BOUNDED = """
import re, resource, sys
import numpy as np
from maxmargin import data
from maxmargin.data.design import as_design

def status(name):
    return int(re.search(name + r":\\s+(\\d+) kB", open("/proc/self/status").read())[1])

X, w = np.ones((100_000, 20), dtype=np.float32), np.ones(20)
data.write(sys.argv[1] + "/small", [(X, np.zeros(len(X)))]).dot(w, 0, len(X))   # compiled, imported
limit = (status("VmData") + 60_000) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
batches = ((X * k, np.zeros(len(X))) for k in range(40))   # 320 MB
big = data.write(sys.argv[1] + "/big", batches, shard_bytes=32 << 20)
open("/proc/self/clear_refs", "w").write("5")              # the peak starts anew
before = status("VmRSS")
total = sum(big.dot(w, lo, lo + 1_000_000).sum() for lo in range(0, 4_000_000, 1_000_000))
assert total == 20.0 * 100_000 * sum(range(40)), total
try:
    np.ones(limit // 8)
except MemoryError:
    print((status("VmHWM") - before) // 1024)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_neither_writing_nor_reading_takes_memory_of_the_size_of_the_data(tmp_path):
    process = start(BOUNDED, tmp_path)
    out, _ = process.communicate()
    assert process.returncode == 0
    assert int(out) < 160  # MB above the start, of 320 MB that were read


CONVERTER = """
import sys
from maxmargin import data

if __name__ == "__main__":
    data.convert(sys.argv[1], sys.argv[2], part_bytes=200)
"""


@posix
def test_a_killed_conversion_continues_with_the_parts_that_are_missing(tmp_path):
    text, folder = tmp_path / "rows.svm", tmp_path / "rows"
    text.write_text("".join(f"{k % 2} 1:{k} 3:0.5\n" for k in range(1000)))
    process = start(CONVERTER, text, folder)
    try:
        while process.poll() is None and len(list(folder.glob("part-*.json"))) < 5:
            time.sleep(0.001)
        os.kill(process.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    records = list(folder.glob("part-*.json"))
    complete = {re.search(r'"(0000-\d{15})', path.read_text())[1] for path in records}
    begun = {name[:20] for name in os.listdir(folder) if name.startswith("0000-")}
    assert len(begun - complete) <= 1
    assert not (folder / "manifest.json").exists()
    found = data.convert(text, folder, part_bytes=200)
    names = {file.name for shard in found._manifest.shards for file in shard.files.values()}
    assert complete <= {name[:20] for name in names}  # what was complete was not written again
    assert set(os.listdir(folder)) == names | {"manifest.json"}
    found.verify()
    assert found.fingerprint == data.convert(text, tmp_path / "other", part_bytes=200).fingerprint
