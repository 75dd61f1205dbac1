"""When a fit writes its state, and what the file contains besides it."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from maxmargin.checkpoints import (
    Checkpoint,
    CheckpointError,
    CheckpointFolder,
    as_checkpoint,
    exists,
    is_url,
    read_file,
    remove_leftovers,
    write_file,
)
from maxmargin.core.bundle import Bundle
from maxmargin.core.user_warnings import warn_user
from maxmargin.solvers.dual_coordinate import DualCoordinate
from maxmargin.solvers.history_columns import history_columns
from maxmargin.solvers.session import Session, Solver
from maxmargin.solvers.solver_state import (
    differences,
    identity,
    kept_memory,
    parts_in_shards,
    restore,
    snapshot,
)

#: maximum fraction of the time spent on writing
SHARE = 0.03
#: maximum number of differences named in an error message
MOST = 3


class CheckpointWriter:
    """Writes the checkpoints of one fit, which may consist of several problems solved in sequence.

    Parameters
    ----------
    checkpoint : Checkpoint
        File and frequency.
    about : dict
        A description of the fit as plain values, compared when the fit is resumed.
    parts : list
        States of the problems, as read from a checkpoint; each is replaced as its problem proceeds.
    n_parts : int
        Number of problems.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        about: dict[str, Any],
        parts: list[dict[str, Any]] | None = None,
        n_parts: int = 1,
    ) -> None:
        self.checkpoint, self.about, self.n_parts = checkpoint, about, n_parts
        self.parts = list(parts or [])
        self.seconds = 0.0  # duration of the last write
        url = is_url(checkpoint.path)
        self._folder = CheckpointFolder(str(checkpoint.path)) if url else None
        self._path = checkpoint.file
        self._part = -1
        self._identity: dict[str, Any] = {}
        self._written = time.perf_counter()
        self._iterations = 0
        self._memory: dict[str, Any] | None = None
        self._n_mixes = 0
        if self._folder is not None:
            return
        if self._path.is_dir() or not self._path.parent.is_dir():
            what = "a folder" if self._path.is_dir() else "in a folder that does not exist"
            raise ValueError(f"checkpoint={os.fspath(checkpoint.path)!r} is {what}: name a file.")
        if not os.access(self._path.parent, os.W_OK):
            raise PermissionError(f"the folder of checkpoint {self._path} cannot be written to.")
        remove_leftovers(self._path)

    def begin(self, session: Session, identity: dict[str, Any]) -> None:
        """Start or continue the next problem."""
        self._part, self._identity = self._part + 1, identity
        self._iterations, self._memory = len(session.history), kept_memory(session.state.memory)
        self._n_mixes = _n_mixes(session)

    def report(self, session: Session) -> None:
        """Process the end of an iteration."""
        # Cuts are saved by reference at every iteration, because Ctrl-C may interrupt a change of their
        # lists. Working sets are valid at any time.
        if type(session.state.memory) is Bundle or self._memory is None:
            self._memory = kept_memory(session.state.memory)
            self._n_mixes = _n_mixes(session)
        step, n_iter = self.checkpoint.iterations, len(session.history)
        if self._late() or (step is not None and n_iter - self._iterations >= step):
            self.write(session)

    def poll(self, session: Session) -> None:
        """Write if it is time, between two calls of an expensive oracle, whose iterations may take hours."""
        if self._late():
            self.write(session)

    def _late(self) -> bool:
        seconds = self.checkpoint.seconds
        if seconds is None:
            return False
        return time.perf_counter() - self._written >= max(seconds, self.seconds / SHARE)

    def end(self, session: Session) -> None:
        """Process the end of a problem. The last one is always written, so that a later fit can continue."""
        try:
            if self._part == self.n_parts - 1:
                self.write(session)
            else:
                self._keep(session)
                self.poll(session)
        except KeyboardInterrupt:  # the fit is over, and the last file is still there
            session.state.stop = "interrupted"

    def write(self, session: Session) -> None:
        """Write now. A full disk must not end a long fit: keep the previous file and warn."""
        started = time.perf_counter()
        try:
            self._keep(session)
            if self._folder is None:
                write_file(self._path, self.about, {"parts": self.parts})
            else:
                self._folder.write(self.about, {"parts": self.parts})
                self._folder.keep(parts_in_shards(self.parts))
        except OSError as error:
            warn_user(
                f"the checkpoint {self.checkpoint.path} could not be written: {error}. The fit continues; "
                "an earlier checkpoint is still there.",
            )
        self._written, self._iterations = time.perf_counter(), len(session.history)
        self.seconds = self._written - started

    def _keep(self, session: Session) -> None:
        self.parts[self._part : self._part + 1] = [self._state(session)]

    def _state(self, session: Session) -> dict[str, Any]:
        state = session.state
        interrupted = state.stop == "interrupted" and type(state.memory) is Bundle
        # between two iterations, right after its planes got other numbers, a bundle is whole
        interrupted &= self._n_mixes == _n_mixes(session)
        kept = {
            **snapshot(
                state,
                self._memory if interrupted else kept_memory(state.memory),
                None if self._folder is None else self._folder.url,
            ),
            "identity": self._identity,
            "history": history_columns(session.history),
            "passes": session.passes,
            "elapsed": time.perf_counter() - session.started,
        }
        if session.span is not None:  # planes and points are combinations of these columns
            kept["columns"] = session.span.columns_state()
        return kept


def _n_mixes(session: Session) -> int:
    """How many times planes got other numbers."""
    return 0 if session.span is None else session.span.n_mixes


def read_parts(path: Any, about: dict[str, Any]) -> list[dict[str, Any]]:
    """The states in a checkpoint, which must describe the same fit."""
    path = as_checkpoint(path).path
    if not exists(path):
        raise FileNotFoundError(f"resume_from={os.fspath(path)!r}: there is no such file.")
    before, tree = CheckpointFolder(str(path)).read() if is_url(path) else read_file(path)
    require_same(path, before, about)
    try:
        parts = tree["parts"]
        if type(parts) is not list or not all(isinstance(part, dict) for part in parts):
            raise TypeError("parts that are no states")
    except (TypeError, KeyError) as error:
        raise CheckpointError(f"{os.fspath(path)}: the file holds no state of a fit.") from error
    return [{**part, "file": os.fspath(path)} for part in parts]


def as_json(about: dict[str, Any]) -> dict[str, Any]:
    """Convert to what reading from a file would return."""
    try:
        found: dict[str, Any] = json.loads(json.dumps(about, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ValueError(f"about={about!r} must be plain values, as in JSON: {error}") from error
    return found


def open_checkpoint(
    checkpoint: Any, resume_from: Any, about: dict[str, Any] | None
) -> tuple[CheckpointWriter | None, dict[str, Any] | None]:
    """The writer and the state to resume from, given paths or objects made from them."""
    about, kept = as_json(about or {}), resume_from
    if kept is not None and not isinstance(kept, dict):
        parts = read_parts(kept, about)
        if len(parts) != 1:
            raise CheckpointError(
                f"{os.fspath(as_checkpoint(resume_from).path)!s}: the checkpoint holds {len(parts)} "
                "problems, not one."
            )
        kept = parts[0]
    if checkpoint is not None and not isinstance(checkpoint, CheckpointWriter):
        checkpoint = CheckpointWriter(
            as_checkpoint(checkpoint), about, [] if kept is None else [kept]
        )
    return checkpoint, kept


def require_same(path: Any, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise CheckpointError with the differences if the checkpoint belongs to another fit."""
    if not isinstance(before, dict):
        raise CheckpointError(
            f"{os.fspath(path) if path else 'the checkpoint'} has no description."
        )
    other = differences(before, now)
    if other:
        where = "" if path is None else f"{os.fspath(path)}: "
        more = f" (and {len(other) - MOST} more)" if len(other) > MOST else ""
        raise CheckpointError(
            f"{where}the checkpoint is of another problem: {'; '.join(other[:MOST])}{more}. Only limits, "
            "tolerances and where to compute may change between a fit and its continuation."
        )


def prepare(
    session: Session, solver: Solver, recorder: CheckpointWriter | None, kept: dict[str, Any] | None
) -> None:
    """Resume a session from a checkpoint, and set up the writing of its own."""
    own = identity(session.problem, solver)
    if kept is not None:
        require_same(kept.get("file"), kept.get("identity", {}), own)
        by_rows = solver if isinstance(solver, DualCoordinate) else None
        session.state = restore(kept, session.risk, session.problem, by_rows, session.span)
        session.continue_from(kept)
    if recorder is not None:
        recorder.begin(session, own)
        session.recorder = recorder
