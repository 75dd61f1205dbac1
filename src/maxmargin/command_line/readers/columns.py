"""Columns of CoNLL, CoNLL-U and CRF++: a token per line, an empty line after a sequence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from maxmargin.command_line.errors import CommandError
from maxmargin.command_line.readers.examples import Read, ReaderOptions, Sequences, Token
from maxmargin.command_line.readers.templates import (
    Template,
    default_templates,
    parse_templates,
)
from maxmargin.command_line.readers.text import blocks

CONLLU = "id form lemma upos xpos feats head deprel deps misc"


def read(path: str, options: ReaderOptions) -> Read:
    """All sequences of a file of columns separated by spaces or tabs; the label is the last one."""
    return _read(path, options, conllu=False)


def read_conllu(path: str, options: ReaderOptions) -> Read:
    """All sentences of a CoNLL-U file; the label is ``upos``."""
    chosen = replace(options, fields=options.fields or CONLLU, label=options.label or "upos")
    return _read(path, chosen, conllu=True)


def _read(path: str, options: ReaderOptions, *, conllu: bool) -> Read:
    sentences = _Sentences(path, options, conllu)
    X: list[list[Token]] = []
    y: list[list[str]] = []
    for columns in sentences:
        features = [template.features(columns) for template in sentences.templates]
        X.append([[f for f in token if f is not None] for token in zip(*features, strict=True)])
        if sentences.label_column is not None:
            y.append(list(columns[sentences.label_column]))
    if not X:
        raise CommandError(f"{path} holds no sequences.")
    return Read(Sequences(X, y if y else None), sentences.options)


class _Sentences:
    """The columns of each sequence. The names of the columns follow from the first one."""

    def __init__(self, path: str, options: ReaderOptions, conllu: bool) -> None:
        self.path, self.options, self._conllu = path, options, conllu
        self.templates: list[Template] = []
        self.label_column: int | None = None
        self._width = 0

    def __iter__(self) -> Iterator[list[tuple[str, ...]]]:
        for block in blocks(self.path):
            rows = [(number, self._split(line)) for number, line in block]
            rows = [(number, row) for number, row in rows if row]
            if not rows:
                continue
            if not self.templates:
                self._name_columns(rows[0][1])
            for number, row in rows:
                if len(row) != self._width:
                    raise CommandError(
                        f"{self.path}, line {number}: {len(row)} columns, but the first line has "
                        f"{self._width}."
                    )
            yield list(zip(*(row for _, row in rows), strict=True))

    def _split(self, line: str) -> list[str]:
        """The columns of a line; none for comments and for words that span several tokens."""
        if not self._conllu:
            return line.split(self.options.delimiter)
        row = line.split("\t")
        return [] if line.startswith("#") or not row[0].isdigit() else row

    def _name_columns(self, row: Sequence[str]) -> None:
        options, self._width = self.options, len(row)
        names = options.fields.split() if options.fields else _default_names(row)
        label = options.label or names[-1]
        if label not in names:
            raise CommandError(
                f"--label {label}: {self.path} has the columns {', '.join(names)}; --fields names them."
            )
        unlabeled = self._width == len(names) - 1 and label == names[-1]
        if self._width != len(names) and not unlabeled:
            raise CommandError(
                f"{self.path} has {self._width} columns, but {len(names)} are named: {', '.join(names)}. "
                "Name them in order with --fields."
            )
        self.label_column = None if unlabeled else names.index(label)
        inputs = ["form"] if self._conllu and "form" in names else [n for n in names if n != label]
        if not inputs:
            raise CommandError(
                f"{self.path} has one column only, the label. Is its format another one (--format)?"
            )
        text = options.template or default_templates(inputs)
        self.templates = parse_templates(text, names, "the template")
        _refuse_label(self.templates, names, label)
        self.options = replace(options, fields=" ".join(names), label=label, template=text)


def _default_names(row: Sequence[str]) -> list[str]:
    return ["w", *(f"c{k}" for k in range(1, len(row) - 1)), "y"][-len(row) :]


def _refuse_label(templates: Sequence[Template], names: Sequence[str], label: str) -> None:
    """A template of the label would make training accuracy perfect, and predictions impossible."""
    at = names.index(label)
    if any(atom.column == at for template in templates for atom in template.atoms):
        raise CommandError(
            f"a template uses the column {label!r}, which is the label that is to be predicted."
        )
