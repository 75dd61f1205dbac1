"""Feature templates over columns, in the styles of CRFsuite's scripts and of CRF++.

CRFsuite's style names columns, with the position relative to the token in brackets, and joins them by ``|``.
A function of a value follows a dot::

    w[-1]  w[0]  w[-1]|w[0]  w[0].lower  w[0].suffix3  w[0].prefix2  w[0].shape

makes the features ``w[-1]=the``, ``w[-1]|w[0]=the|cat``, ``w[0].suffix3=cat``, and so on. A position outside
of the sequence makes no feature. CRF++'s style numbers rows and columns, one template per line::

    U01:%x[-1,0]/%x[0,0]

makes the feature ``U01:the/cat``; positions outside of the sequence have the values ``_B-1``, ``_B+1``, and
so on. The line ``B`` asks for weights of label pairs, which a tagger always has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache

#: makes another string of a value
Function = Callable[[str], str]

_ATOM = re.compile(r"([^\[\]|\s]+)\[([+-]?\d+)\](?:\.([a-z]+)(\d*))?")
_MACRO = re.compile(r"%x\[([+-]?\d+),(\d+)\]")


@dataclass(frozen=True, slots=True)
class Atom:
    """One value of a template: a column, a position relative to the token, and a function."""

    column: int
    offset: int
    function: Function | None = None


@dataclass(frozen=True, slots=True)
class Template:
    """Text pieces with values between them: ``pieces[0] value pieces[1] value ... pieces[-1]``."""

    pieces: tuple[str, ...]
    atoms: tuple[Atom, ...]
    #: whether positions outside of the sequence have values of their own
    padded: bool

    #: features that were made, by their values: equal strings are one object
    made: dict[tuple[str | None, ...], str | None] = field(default_factory=dict, compare=False)

    def features(self, columns: Sequence[Sequence[str]]) -> list[str | None]:
        """The feature of each token of a sequence, or None."""
        n, made = len(columns[0]), self.made
        values = [self._values(atom, columns[atom.column], n) for atom in self.atoms]
        keys = zip(*values, strict=True)
        return [made[key] if key in made else self._feature(key) for key in keys]

    def _feature(self, values: tuple[str | None, ...]) -> str | None:
        """A feature that is made for the first time."""
        self.made[values] = text = self._joined(values)
        return text

    def _joined(self, values: tuple[str | None, ...]) -> str | None:
        text = self.pieces[0]
        for value, piece in zip(values, self.pieces[1:], strict=True):
            if value is None:
                return None
            text += value + piece
        return text

    def _values(self, atom: Atom, column: Sequence[str], n: int) -> list[str | None]:
        function, k = atom.function, atom.offset
        own: list[str | None] = [v if function is None else function(v) for v in column]
        before = min(max(-k, 0), n)
        after = min(max(k, 0), n)
        head = [f"_B-{before - i}" if self.padded else None for i in range(before)]
        tail = [f"_B+{i + 1}" if self.padded else None for i in range(after)]
        if self.padded and max(-k, 0) > n:  # the sequence is shorter than the offset
            head = [f"_B-{-k - i}" for i in range(n)]
        if self.padded and max(k, 0) > n:
            tail = [f"_B+{k - n + i + 1}" for i in range(n)]
        return [*head, *own[after : n - before], *tail]


def parse_templates(text: str, fields: Sequence[str], where: str) -> list[Template]:
    """The templates of a text; ``fields`` are the names of the columns."""
    out: list[Template] = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.split("#", 1)[0].strip() if line.lstrip().startswith("#") else line.strip()
        place = f"{where}, line {number}"
        if not line or line == "B":
            continue
        if "%x[" in line:
            out.append(_numbered(line, fields, place))
        else:
            out.extend(_named(word, fields, place) for word in line.split())
    if not out:
        raise ValueError(f"{where} holds no templates.")
    return out


def default_templates(inputs: Sequence[str]) -> str:
    """Templates for columns of these names: the first is the word, whose ends and shape are used, too."""
    lines = []
    for name in inputs:
        lines.append(" ".join(f"{name}[{k}]" for k in range(-2, 3)))
        lines.append(f"{name}[-1]|{name}[0] {name}[0]|{name}[1]")
    word = inputs[0]
    lines.append(" ".join(f"{word}[0].suffix{k}" for k in (1, 2, 3)))
    lines.append(f"{word}[0].prefix2 {word}[0].prefix3 {word}[0].lower {word}[0].shape")
    return "\n".join(lines)


def _named(text: str, fields: Sequence[str], where: str) -> Template:
    atoms = []
    for part in text.split("|"):
        match = _ATOM.fullmatch(part)
        if match is None:
            raise ValueError(
                f"{where}: {part!r} is no template. Write name[position], such as w[-1], several joined by |."
            )
        name, offset, function, number = match.groups()
        if name not in fields:
            raise ValueError(
                f"{where}: there is no column {name!r}; the columns are {', '.join(fields)} (fields "
                "names them)."
            )
        atoms.append(Atom(fields.index(name), int(offset), _function(function, number, where)))
    pieces = (f"{text}=", *["|"] * (len(atoms) - 1), "")
    return Template(pieces, tuple(atoms), padded=False)


def _numbered(line: str, fields: Sequence[str], where: str) -> Template:
    if line.startswith("B"):
        raise ValueError(
            f"{where}: features of label pairs (B...%x) are not supported. Use order 2 in place of them."
        )
    atoms = tuple(Atom(int(column), int(row)) for row, column in _MACRO.findall(line))
    for atom in atoms:
        if atom.column >= len(fields):
            raise ValueError(
                f"{where}: there is no column {atom.column}; the file has {len(fields)} columns, from 0 on."
            )
    pieces = _MACRO.split(line)[::3]
    return Template(tuple(pieces), atoms, padded=True)


def _function(name: str | None, number: str, where: str) -> Function | None:
    if name is None:
        return None
    if name in ("prefix", "suffix") and number and int(number):
        k = int(number)
        return (lambda v: v[:k]) if name == "prefix" else (lambda v: v[-k:])
    if name in _PLAIN and not number:
        return cache(_PLAIN[name])
    raise ValueError(
        f"{where}: there is no function {name + number!r}; use lower, shape, prefix1, prefix2, ..., suffix1, "
        "suffix2, ..."
    )


def _shape(value: str) -> str:
    """Xx0- for capitals, small letters, digits, and everything else; runs are shortened to two."""
    kinds = "".join(
        "X" if c.isupper() else "x" if c.isalpha() else "0" if c.isdigit() else c for c in value
    )
    return re.sub(r"(.)\1{2,}", r"\1\1", kinds)


_PLAIN: dict[str, Function] = {"lower": str.lower, "shape": _shape}
