"""Requests to object stores, which fail now and then, repeated a few times after longer and longer pauses."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

#: seconds before each repetition of a request that failed; up to half as long again, so that many machines do
#: not repeat theirs at the same time
PAUSES = (0.1, 0.5, 2.5)
#: errors that a repetition would not cure
FINAL = (FileNotFoundError, FileExistsError, PermissionError, NotImplementedError, TypeError)


def tried(
    request: Callable[[], T], name: str, log: logging.Logger, pauses: Sequence[float] = PAUSES
) -> T:
    """The answer to a request for this file; each failure is logged."""
    for pause in pauses:
        try:
            return request()
        except FINAL:
            raise
        except Exception as error:
            seconds = pause * (1.0 + 0.5 * random.random())
            log.warning(
                "a request for %s failed (%s: %s); it is repeated in %.1f seconds",
                name, type(error).__name__, error, seconds,
            )  # fmt: skip
            time.sleep(seconds)
    return request()
