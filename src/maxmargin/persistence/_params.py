"""Parameters of estimators in a model file: plain values, arrays, and objects of :mod:`._objects`.

They are checked by the same constraints as in ``fit``.
"""

from __future__ import annotations

from typing import Any

from maxmargin.core.user_warnings import warn_user
from maxmargin.estimators.parameters import check_values
from maxmargin.files.codec import CONTRADICTIONS, Decoder, Encoder, FormatError, dumps
from maxmargin.persistence._fields import section
from maxmargin.persistence._objects import convert, makers, own_loss

#: parameters that are code or belong to one fit: a loaded estimator has no callbacks and no checkpoint, and
#: the caller passes its task
NOT_STORED = frozenset({"callbacks", "task", "checkpoint"})


def storable_params(estimator: Any) -> dict[str, Any]:
    """The parameters that a file can hold. Others are left out, with a warning."""
    out: dict[str, Any] = {}
    for name, value in estimator.get_params(deep=False).items():
        if name in NOT_STORED:
            continue
        own = own_loss(value)
        encoder = Encoder(convert)
        try:  # what could not be loaded is not written
            stored = dumps(encoder.encode(value))
            _check(name, Decoder(encoder.finish(), makers(own)).decode(stored, name))
            out[name] = value
        except CONTRADICTIONS as error:
            if own is not None:
                raise
            warn_user(
                f"the parameter {name}={value!r} cannot be stored ({error}); the loaded estimator will have "
                "the default instead. Its predictions do not depend on it.",
            )
    return out


def read_params(cls: Any, stored: Any) -> dict[str, Any]:
    """The parameters, which must be those of the class."""
    known = tuple(name for name in cls._get_param_names() if name not in NOT_STORED)
    out = section(stored, f"the parameters of {cls.__name__}", (), known)
    for name, value in out.items():
        _check(name, value)
    check_values(cls, out)
    return out


def _check(name: str, value: object) -> None:
    if name == "engine" and value not in ("threads", "processes", "ray"):
        raise FormatError("the parameter engine must be the name of an engine, not an address")
