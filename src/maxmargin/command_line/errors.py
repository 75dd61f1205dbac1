"""Exit codes, and the error that ends the command with one of them."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the exit code of the command says, for scripts."""

    DONE = 0
    #: an unexpected error: a bug
    BUG = 1
    #: wrong arguments or wrong input
    USAGE = 2
    #: the fit ended without reaching its tolerance; its model is written
    NOT_CERTIFIED = 3
    #: Ctrl-C; what was found is written
    INTERRUPTED = 130
    #: the program that reads our output has ended
    PIPE = 141


class CommandError(ValueError):
    """A message for the user, in one line, and the exit code."""

    def __init__(self, text: str, code: ExitCode = ExitCode.USAGE) -> None:
        super().__init__(text)
        self.code = code
