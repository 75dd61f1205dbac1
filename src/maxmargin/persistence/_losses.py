"""Losses in a model file: a name and plain parameters. A loss of the user's own is code, and code is not
stored: its class is handed to ``load``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.losses import (
    AtK,
    BalancedError,
    CrammerSinger,
    EpsilonInsensitive,
    FBeta,
    Hinge,
    Logistic,
    OneClass,
    QMeasure,
    QuantificationLoss,
    RocAuc,
    ScoreLoss,
    SquaredEpsilonInsensitive,
    SquaredHinge,
)
from maxmargin.persistence._values import ModelFileError, decode, encode, is_label, section, shown

#: losses that a file may ask for by name
LOSSES: dict[str, type[ScoreLoss]] = {
    cls.__name__: cls
    for cls in (
        AtK,
        BalancedError,
        CrammerSinger,
        EpsilonInsensitive,
        FBeta,
        Hinge,
        Logistic,
        OneClass,
        QuantificationLoss,
        QMeasure,
        RocAuc,
        SquaredEpsilonInsensitive,
        SquaredHinge,
    )
}


class MissingLossError(ValueError):
    """The file needs a class that was not handed to ``load``."""


def own_loss(loss: Any) -> type[ScoreLoss] | None:
    """The class of a loss object if it is not one of the library's; one that takes the name of another is
    refused."""
    if not isinstance(loss, ScoreLoss) or type(loss) is LOSSES.get(type(loss).__name__):
        return None
    if type(loss).__name__ in LOSSES:
        raise ValueError(
            f"a class of your own has the name of the library's loss {type(loss).__name__}, by which a file "
            "would mean the latter: rename it to save the model."
        )
    return type(loss)


def store_loss(loss: ScoreLoss) -> dict[str, Any]:
    """Name and plain parameters as JSON."""
    return {"loss": type(loss).__name__, "params": plain_params(loss)}


def plain_params(loss: ScoreLoss, leave: tuple[str, ...] = ()) -> dict[str, Any]:
    """The parameters of a loss as JSON, without those to leave out; others than plain ones are refused."""
    out = {}
    for name, value in loss.get_params().items():
        if name in leave:
            continue
        value = value.item() if isinstance(value, np.generic) else value
        if not is_label(value):
            raise ValueError(
                f"the loss {type(loss).__name__} cannot be saved: its parameter {name} is a "
                f"{type(value).__name__}, and numbers, strings, bool, None or tuples of them are stored."
            )
        out[name] = encode(value)
    return out


def read_loss(stored: Any, what: str, own: type[ScoreLoss] | None) -> ScoreLoss:
    """The way back; ``own`` is the class that the caller handed in."""
    stored = section(stored, what, ("loss", "params"))
    return make_loss(stored["loss"], stored["params"], {}, what, own)


def make_loss(
    name: Any, params: Any, arrays: dict[str, Any], what: str, own: type[ScoreLoss] | None
) -> ScoreLoss:
    """A loss by its name, with plain parameters from the file and arrays."""
    if not isinstance(name, str) or not name.isidentifier() or not isinstance(params, dict):
        raise ModelFileError(f"{what} names no loss")
    values = {key: decode(value, f"{key} of {what}") for key, value in params.items()}
    if not all(is_label(value) for value in values.values()):
        raise ModelFileError(f"{what} has a parameter that is not plain")
    cls = LOSSES.get(name, own)
    if cls is None or (name not in LOSSES and cls.__name__ != name):
        given = "" if own is None else f"; the class given is {own.__name__}"
        keyword = "measure" if "measure" in what else "loss"
        raise MissingLossError(
            f"the model was trained with {name[:80]} in {what}. A loss or a measure of your own is code, and "
            f"code is not stored: pass its class as load(path, {keyword}={name[:80]}){given}."
        )
    try:
        return cls(**values, **arrays)
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelFileError(f"{what}: {shown(error)}") from error


def check_loss_class(given: Any, name: str) -> None:
    """Refuse what is not the class of a loss or a measure."""
    if given is not None and not (isinstance(given, type) and issubclass(given, ScoreLoss)):
        raise TypeError(
            f"{name}={given!r}: give the class of the {name}, not an object; its parameters are in the file."
        )
