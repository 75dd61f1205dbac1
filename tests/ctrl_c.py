"""Calls that Ctrl-C ends."""

import pytest


def interrupted(call, *args, **options):
    """The exception that a call ends with; what was stored is attached to it."""
    with pytest.raises(KeyboardInterrupt) as caught:
        call(*args, **options)
    return caught.value
