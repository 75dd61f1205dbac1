"""Columns of CoNLL, CoNLL-U and CRF++: a token per line, an empty line after a sequence."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from maxmargin.data.formats.compressed import blocks, plain_name
from maxmargin.data.tokens.templates import Template, default_templates, parse_templates

CONLLU = "id form lemma upos xpos feats head deprel deps misc"
#: the names of the features of each token of each sequence
Tokens = list[list[list[str]]]
Labels = list[list[str]]


def read_conll(
    path: str | os.PathLike[str],
    *,
    templates: str | Sequence[str] | None = None,
    fields: str | Sequence[str] | None = None,
    label: str | None = None,
    delimiter: str | None = None,
) -> tuple[Tokens, Labels | None]:
    """Read sequences from a file of columns, as in CoNLL's tasks, CoNLL-U, and CRF++.

    A line holds the columns of a token, and an empty line follows a sequence. Templates make the features of
    a token from its columns and from those of its neighbors; :class:`~maxmargin.SequenceTagger` takes the
    result. The command ``maxmargin fit`` reads its files in this way.

    Parameters
    ----------
    path : str or path
        A file, plain or compressed (.gz, .bz2, .xz, .zst), or a URL. If its name ends in ``.conllu``, it is
        CoNLL-U: comments, ranges, and empty nodes are left out, and the label is ``upos``.
    templates : str or list of str, default=None
        Feature templates. ``w[-1]|w[0]`` joins the column w of the previous token and of this one;
        ``w[0].lower``, ``.shape``, ``.prefix2``, and ``.suffix3`` change a value. CRF++'s
        ``U01:%x[-1,0]/%x[0,0]`` is the other style. By default: words and other columns from two before to
        two after the token, pairs of neighbors, and the ends and the shape of the word.
    fields : str or list of str, default=None
        The names of the columns, such as ``"w pos y"``. By default ``w``, ``c1``, ``c2``, ..., ``y``.
    label : str, default=None
        The column of labels, by default the last one. It may be missing from a file without labels.
    delimiter : str, default=None
        The character between columns, by default spaces and tabs.

    Returns
    -------
    X : list of list of list of str
        The names of the features of each token.
    y : list of list of str, or None
        The label of each token; None if the file has no column of labels.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from maxmargin import SequenceTagger
    >>> from maxmargin.data import read_conll
    >>> text = "Ada B-PER\\nLovelace I-PER\\nsmiled O\\n\\nIn O\\nLondon B-LOC\\n"
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "train.conll")
    ...     _ = path.write_text(text)
    ...     X, y = read_conll(path, templates="w[0] w[-1] w[0].shape")
    >>> X[0][1], y[0]
    (['w[0]=Lovelace', 'w[-1]=Ada', 'w[0].shape=Xxx'], ['B-PER', 'I-PER', 'O'])
    >>> SequenceTagger().fit(X, y).predict(X)[1]
    ['O', 'B-LOC']
    """
    text = templates if templates is None or isinstance(templates, str) else "\n".join(templates)
    names = fields if fields is None or isinstance(fields, str) else " ".join(fields)
    path = os.fspath(path)
    conllu = plain_name(path).endswith(".conllu")
    found = read_columns(path, ColumnOptions(names, label, text, delimiter), conllu=conllu)
    return found.X, found.y


class ColumnOptions(NamedTuple):
    """Names of columns, the label, the text of the templates, and the delimiter; None: the default."""

    fields: str | None = None
    label: str | None = None
    template: str | None = None
    delimiter: str | None = None


class ReadColumns(NamedTuple):
    """The sequences of a file, and the options that read it, with what was found out."""

    X: Tokens
    y: Labels | None
    options: ColumnOptions


def read_columns(path: str, options: ColumnOptions, *, conllu: bool) -> ReadColumns:
    """All sequences of a file."""
    if conllu:
        options = options._replace(
            fields=options.fields or CONLLU, label=options.label or "upos", delimiter="\t"
        )
    sentences = _ConllFile(path, options, conllu)
    X: Tokens = []
    y: Labels = []
    for columns in sentences:
        features = [template.features(columns) for template in sentences.templates]
        X.append([[f for f in token if f is not None] for token in zip(*features, strict=True)])
        if sentences.label_column is not None:
            y.append(list(columns[sentences.label_column]))
    if not X:
        raise ValueError(f"{path} holds no sequences.")
    return ReadColumns(X, y if y else None, sentences.options)


class _ConllFile:
    """The columns of each sequence. The names of the columns follow from the first one."""

    def __init__(self, path: str, options: ColumnOptions, conllu: bool) -> None:
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
                    raise ValueError(
                        f"{self.path}, line {number}: {len(row)} columns, but the first line has "
                        f"{self._width}."
                    )
            yield list(zip(*(row for _, row in rows), strict=True))

    def _split(self, line: str) -> list[str]:
        """The columns of a line; none for comments and for words that span several tokens."""
        row = line.split(self.options.delimiter)
        return [] if self._conllu and (line.startswith("#") or not row[0].isdigit()) else row

    def _name_columns(self, row: Sequence[str]) -> None:
        options, self._width = self.options, len(row)
        names = options.fields.split() if options.fields else _default_names(row)
        label = options.label or names[-1]
        if label not in names:
            raise ValueError(
                f"label {label}: {self.path} has the columns {', '.join(names)}; fields names them."
            )
        unlabeled = self._width == len(names) - 1 and label == names[-1]
        if self._width != len(names) and not unlabeled:
            raise ValueError(
                f"{self.path} has {self._width} columns, but {len(names)} are named: {', '.join(names)}. "
                "Name them in order with fields."
            )
        self.label_column = None if unlabeled else names.index(label)
        inputs = ["form"] if self._conllu and "form" in names else [n for n in names if n != label]
        if not inputs:
            raise ValueError(
                f"{self.path} has one column only, the label. Is its format another one?"
            )
        text = options.template or default_templates(inputs)
        self.templates = parse_templates(text, names, "the template")
        _refuse_label(self.templates, names, label)
        self.options = options._replace(fields=" ".join(names), label=label, template=text)


def _default_names(row: Sequence[str]) -> list[str]:
    return ["w", *(f"c{k}" for k in range(1, len(row) - 1)), "y"][-len(row) :]


def _refuse_label(templates: Sequence[Template], names: Sequence[str], label: str) -> None:
    """A template of the label would make training accuracy perfect, and predictions impossible."""
    at = names.index(label)
    if any(atom.column == at for template in templates for atom in template.atoms):
        raise ValueError(
            f"a template uses the column {label!r}, which is the label that is to be predicted."
        )
