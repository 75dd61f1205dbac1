"""Ctrl-C: store the best point first, then raise the interrupt.

Inside a fit, Ctrl-C only ends the loop. The best point gets its bounds and the estimator its attributes. Then
the outermost call raises ``KeyboardInterrupt``, with the stored result attached. If a library suppressed the
interrupt, "stop" would mean "skip one fold" in a user's cross-validation loop.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ParamSpec, Protocol, TypeVar, cast

Args = ParamSpec("Args")
Result = TypeVar("Result")

_RETURNS: ContextVar[bool] = ContextVar("maxmargin_return_on_interrupt", default=False)


@contextmanager
def return_on_interrupt() -> Iterator[None]:
    """Make fits return their best point on Ctrl-C, instead of raising ``KeyboardInterrupt``.

    By default an interrupted fit stores its best point and its bounds and then raises. The estimator is
    ``error.estimator``; for :func:`maxmargin.minimize` the result is ``error.result``. Inside this context
    the fit returns as after a time limit, with ``stop_reason_ = "interrupted"``, and the caller continues:
    one Ctrl-C ends one fit, not the loop around it. An interrupt before there is anything to return is still
    raised.

    The setting applies to the current thread (or asynchronous task) only. Calls made inside a fit, by a
    callback or a user's oracle, always raise, so that the enclosing fit ends.

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
    """Context of a public call that stores its results; yields whether it returns after Ctrl-C or raises.

    Calls inside it always raise, so that the outer call receives interrupts that they caught.
    """
    returns = _RETURNS.get()
    token = _RETURNS.set(False)
    try:
        yield returns
    finally:
        _RETURNS.reset(token)


def interrupt(note: str, **kept: Any) -> KeyboardInterrupt:
    """The exception to raise, with the stored objects as attributes and a note below the traceback."""
    error = KeyboardInterrupt()
    for name, value in kept.items():
        setattr(error, name, value)
    error.add_note(note)
    return error


class Raising(Protocol[Args, Result]):
    """A function that raises after Ctrl-C; ``__wrapped__`` returns, for callers that have more to store."""

    __wrapped__: Callable[Args, Result]

    def __call__(self, *args: Args.args, **kwargs: Args.kwargs) -> Result:
        """Call the function."""


def raising_interrupts(
    in_words: Callable[[Any], str],
) -> Callable[[Callable[Args, Result]], Raising[Args, Result]]:
    """Make a public function raise ``KeyboardInterrupt`` if its result was interrupted. ``in_words``
    describes a result in the note of the error."""

    def decorate(function: Callable[Args, Result]) -> Raising[Args, Result]:
        @functools.wraps(function)
        def call(*args: Args.args, **kwargs: Args.kwargs) -> Result:
            with outermost() as returns:
                result: Any = function(*args, **kwargs)
            if result.stop_reason == "interrupted" and not returns:
                note = f"{function.__name__}: {in_words(result)}. The result is error.result."
                raise interrupt(note, result=result)
            return cast(Result, result)

        return call

    return decorate
