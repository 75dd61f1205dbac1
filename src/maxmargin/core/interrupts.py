"""Ctrl-C: what was found is stored first, and then the interrupt goes on to the caller.

Inside a fit Ctrl-C only ends the loop. The best point gets its bounds, the estimator its attributes; after
that the outermost call raises ``KeyboardInterrupt``, with what it stored attached. A library that kept an
interrupt to itself would turn "stop" into "skip one fold" in the loops of others.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_RETURNS: ContextVar[bool] = ContextVar("maxmargin_return_on_interrupt", default=False)


@contextmanager
def return_on_interrupt() -> Iterator[None]:
    """Let fits return what they have found when Ctrl-C is pressed, instead of raising ``KeyboardInterrupt``.

    By default a fit that is interrupted stores its best point and its bounds, and then raises: the estimator
    is ``error.estimator`` (of :func:`maxmargin.minimize` the result is ``error.result``). Inside this context
    it returns as after a time limit, with ``stop_reason_ = "interrupted"``, and whoever called it goes on:
    one press ends one fit, not the loop around it. An interrupt before there is anything to return is raised
    all the same.

    The setting holds for the current thread (or asynchronous task) alone. Calls inside a fit, by a callback
    or a user's oracle, always raise: the fit around them is the one to end.

    Yields
    ------
    None

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> import maxmargin
    >>> def press(record):                                        # Ctrl-C in the third iteration
    ...     if record.iteration == 3:
    ...         raise KeyboardInterrupt
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> svc = maxmargin.LinearSVC(C=1e4, tol=1e-9, callbacks=[press])
    >>> try:
    ...     svc.fit(X, y)
    ... except KeyboardInterrupt as error:
    ...     print(error.estimator is svc, svc.stop_reason_, svc.lower_bound_ <= svc.objective_)
    True interrupted True
    >>> with maxmargin.return_on_interrupt():
    ...     svc = svc.fit(X, y)
    >>> svc.stop_reason_, svc.predict(X[:2]).shape
    ('interrupted', (2,))
    """
    token = _RETURNS.set(True)
    try:
        yield
    finally:
        _RETURNS.reset(token)


@contextmanager
def outermost() -> Iterator[bool]:
    """A public call that stores what it finds: whether it then returns after Ctrl-C, or raises.

    Calls inside it raise, so that it hears of an interrupt that they caught.
    """
    returns = _RETURNS.get()
    token = _RETURNS.set(False)
    try:
        yield returns
    finally:
        _RETURNS.reset(token)


def interrupt(note: str, **kept: Any) -> KeyboardInterrupt:
    """The exception for the caller, with what was stored as attributes and a note below the traceback."""
    error = KeyboardInterrupt()
    for name, value in kept.items():
        setattr(error, name, value)
    error.add_note(note)
    return error
