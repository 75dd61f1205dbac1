"""CRFsuite's own format: a token per line, ``label<TAB>attribute[:value]<TAB>...``, an empty line after a
sequence.

``\\:`` and ``\\\\`` in a name stand for a colon and a backslash. A line ``@weight:2`` is the weight of its
sequence.
"""

from __future__ import annotations

import numpy as np

from maxmargin.command_line.errors import CommandError
from maxmargin.command_line.readers.examples import Read, ReaderOptions, Sequences, Token
from maxmargin.data.formats.compressed import blocks


def read(path: str, options: ReaderOptions) -> Read:
    """All sequences of a file. Tokens are dicts of values, or lists of names where all values are 1."""
    X: list[list[Token]] = []
    y: list[list[str]] = []
    weights: list[float] = []
    for block in blocks(path):
        tokens: list[Token] = []
        labels: list[str] = []
        weight = 1.0
        for number, line in block:
            where = f"{path}, line {number}"
            label, *attributes = line.split("\t")
            if label.startswith("@"):
                weight = _declared(label, where)
                continue
            labels.append(label)
            tokens.append(_token(attributes, where))
        if tokens:
            X.append(tokens)
            y.append(labels)
            weights.append(weight)
    if not X:
        raise CommandError(f"{path} holds no sequences.")
    weight_array = None if set(weights) == {1.0} else np.array(weights)
    return Read(Sequences(X, list(y), weight_array), options)


def _declared(text: str, where: str) -> float:
    name, _, value = text.partition(":")
    if name != "@weight":
        raise CommandError(f"{where}: unknown declaration {name!r}; only @weight is known.")
    return _number(value, where)


def _token(attributes: list[str], where: str) -> Token:
    pairs = [_attribute(text, where) for text in attributes if text]
    names = [name for name, _ in pairs]
    if all(value == 1.0 for _, value in pairs) and len(set(names)) == len(names):
        return names
    token: dict[str, float] = {}
    for name, value in pairs:  # CRFsuite adds the values of a name that is repeated
        token[name] = token.get(name, 0.0) + value
    return token


def _attribute(text: str, where: str) -> tuple[str, float]:
    if "\\" not in text:
        name, colon, value = text.partition(":")
        return name, _number(value, where) if colon else 1.0
    name, at = "", 0
    while at < len(text) and text[at] != ":":
        at += text[at] == "\\" and at + 1 < len(text)
        name += text[at]
        at += 1
    return name, _number(text[at + 1 :], where) if at < len(text) else 1.0


def _number(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not np.isfinite(value):
        raise CommandError(
            f"{where}: {text!r} is not a number. (Write a colon within a name as \\:)"
        )
    return value
