"""CRFsuite's format: ``label<TAB>attribute[:value]<TAB>...``, an empty line after a sequence."""

from __future__ import annotations

from typing import Any, TextIO

from maxmargin.command_line.errors import CommandError
from maxmargin.command_line.readers.examples import Examples, Sequences, Token


def write(examples: Examples, file: TextIO) -> int:
    """Write all sequences with named features."""
    if not isinstance(examples, Sequences) or not examples.named:
        raise CommandError("crfsuite's format holds sequences with named features.")
    tokens: Any = examples.X
    for k, sequence in enumerate(tokens):
        labels = [""] * len(sequence) if examples.y is None else examples.y[k]
        if examples.weight is not None:
            file.write(f"@weight:{float(examples.weight[k])!r}\n")
        for label, token in zip(labels, sequence, strict=True):
            file.write("\t".join([str(label), *_attributes(token)]) + "\n")
        file.write("\n")
    return len(tokens)


def _attributes(token: Token) -> list[str]:
    if isinstance(token, dict):
        return [f"{_escaped(name)}:{value!r}" for name, value in token.items()]
    return [_escaped(name) for name in token]


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace(":", "\\:").replace("\t", " ")
