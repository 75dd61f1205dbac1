"""Requests to object stores, which fail now and then, repeated a few times after longer and longer pauses."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")

#: seconds before each repetition of a request that failed; up to half as long again, so that many machines do
#: not repeat theirs at the same time
PAUSES = (0.1, 0.5, 2.5)
#: seconds after which a request without an answer has failed; of one that moves a whole file
SECONDS, WHOLE_FILE = 300.0, 3600.0
#: errors that a repetition would not cure
FINAL = (FileNotFoundError, FileExistsError, PermissionError, NotImplementedError, TypeError)


def tried(
    request: Callable[[], T],
    name: str,
    log: logging.Logger,
    pauses: Sequence[float] = PAUSES,
    limit: float = SECONDS,
) -> T:
    """The answer to a request for this file; each failure is logged. ``limit`` is in seconds."""
    for pause in pauses:
        try:
            return _timed(request, limit)
        except FINAL:
            raise
        except Exception as error:
            seconds = pause * (1.0 + 0.5 * random.random())
            log.warning(
                "a request for %s failed (%s: %s); it is repeated in %.1f seconds",
                name, type(error).__name__, error, seconds,
            )  # fmt: skip
            time.sleep(seconds)
    return _timed(request, limit)


def _timed(request: Callable[[], T], limit: float) -> T:
    """The answer to a request. If none comes, only a thread waits on, which ends with the process."""
    answer: Future[T] = Future()

    def ask() -> None:
        try:
            answer.set_result(request())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=ask, name="maxmargin-request", daemon=True).start()
    try:
        return answer.result(limit)
    except TimeoutError:
        if answer.done():  # the store's own
            raise
        raise TimeoutError(f"the store has not answered for {limit:g} seconds") from None
