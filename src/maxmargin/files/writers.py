"""Writers that were killed: whose a lock is, and partial files that nobody will complete."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from pathlib import Path

try:
    import fcntl

    LOCKS = True
except ImportError:  # Windows
    LOCKS = False

#: seconds after which a partial file is nobody's
DAY = 86_400.0


def state(pid: int) -> str:
    """The state of a process, such as "T" if it is stopped; empty where the system does not tell."""
    return _line(f"/proc/{pid}/stat", 0)


def _line(path: str, what: int = 0) -> str:
    try:
        return Path(path).read_text().rsplit(")", 1)[-1].split()[what]
    except (OSError, IndexError):  # not on this system, or no such process
        return ""


def _pids() -> str:
    """The numbering of processes, which differs between containers."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def this_process() -> str:
    """Text that identifies this process, for a lock: its number and start, and those of its machine."""
    pid, boot = os.getpid(), _line("/proc/sys/kernel/random/boot_id")
    return f"{pid} {_line(f'/proc/{pid}/stat', 19)} {socket.gethostname()} {boot} {_pids()}"


def described(holder: str) -> str:
    """A process for an error message."""
    parts = holder.split(" ")
    return f"process {parts[0]} on {parts[2]}" if len(parts) == 5 else "an unknown process"


def is_dead(holder: str) -> bool:
    """Whether this process ran on this machine and has ended. False if that cannot be known from here."""
    pid, start, *place = holder.split(" ")
    own = this_process().split(" ")[2:]
    if not pid.isdigit() or len(place) != 3 or place[0] != own[0] or not own[1]:
        return False
    if place[1] != own[1]:  # the machine was started again
        return True
    return place == own and start != _line(f"/proc/{pid}/stat", 19)


def take_over(lock: Path) -> bool:
    """Make a lock of a process that was killed on this machine our own; whether this was so."""
    if not LOCKS:
        return False
    with contextlib.suppress(OSError, ValueError), open(lock, "r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # others may want to take it over, too
        same = os.fstat(file.fileno()).st_ino == os.stat(lock).st_ino
        if same and is_dead(file.read()):
            file.seek(0)
            file.truncate()
            file.write(this_process())
            return True
    return False


def remove_partial(folder: Path, pattern: str, age: float = DAY) -> None:
    """Remove partial files of writers that were killed, if they are older than this."""
    for partial in folder.glob(pattern):
        with contextlib.suppress(OSError):
            if not age or time.time() - partial.stat().st_mtime >= age:
                partial.unlink()
