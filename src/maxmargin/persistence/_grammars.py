"""Grammars in a model file: symbols and words by name, rules as numbers of symbols."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.estimators import GrammarParser
from maxmargin.persistence._arrays import AnyArray, ArrayReader, ArrayWriter
from maxmargin.persistence._values import ModelFileError, encode, section, shown
from maxmargin.tasks.parsing.grammar import Grammar, Rule, Symbol
from maxmargin.tasks.parsing.lexicon import Lexicon
from maxmargin.tasks.parsing.parsing import Parsing

_OPTIONS = (
    "loss",
    "wrong_cost",
    "horizontal",
    "parents",
    "attributes",
    "min_count",
    "beam",
    "max_exact_length",
)
#: fields of a symbol by kind: how many, beside the kind
_FIELDS = {"tag": 1, "phrase": 2, "part": 3}


def write_parser(est: GrammarParser, writer: ArrayWriter) -> dict[str, Any]:
    """The fitted part of a parser."""
    grammar: Grammar = est.task_.grammar
    number = {symbol: k for k, symbol in enumerate(grammar.symbols)}
    lexicon = grammar.lexicon
    rows: dict[str, list[list[int]]] = {"start": [], "binary": [], "word": []}
    paths: list[list[int]] = []
    for rule in grammar.rules:
        if rule[0] == "chain":
            paths.append([number[symbol] for symbol in rule[1]])
        elif rule[0] == "word":
            rows["word"].append([number[rule[1]], rule[2]])
        else:
            rows[rule[0]].append([number[symbol] for symbol in rule[1:]])
    for kind, width in (("start", 1), ("binary", 3), ("word", 2)):
        writer.add(f"rules.{kind}", np.array(rows[kind], dtype=np.int32).reshape(-1, width))
    writer.add("rules.chain", np.array([k for path in paths for k in path], dtype=np.int32))
    writer.add("rules.chain.lengths", np.array([len(path) for path in paths], dtype=np.int32))
    writer.add_names("symbols", grammar.symbols)
    writer.add_names("words", lexicon.names[: lexicon.n_words])
    writer.add_names("shapes", lexicon.names[lexicon.n_words :])
    known = list(dict.fromkeys(name for name, _ in grammar.pairs))
    place = {name: k for k, name in enumerate(known)}
    writer.add_names("attributes", known)
    pairs = [[place[name], number["tag", tag]] for name, tag in grammar.pairs]
    writer.add("pairs", np.array(pairs, dtype=np.int32).reshape(-1, 2))
    writer.add("counts", grammar.counts)
    writer.add("coef", est.coef_)
    return {name: encode(getattr(est, name)) for name in _OPTIONS}


def read_parser(stored: Any, reader: ArrayReader) -> dict[str, Any]:
    """The attributes of a fitted parser."""
    options = section(stored, "the fitted part", _OPTIONS)
    try:
        task = Parsing(**options)
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"the parser cannot be built: {shown(error)}") from error
    symbols = reader.take_names("symbols")
    if not all(_is_symbol(symbol) for symbol in symbols):
        raise ModelFileError("the symbols of the grammar are of an unknown form")
    words, shapes = _texts(reader, "words"), _texts(reader, "shapes")
    lexicon = Lexicon([*words, *shapes], len(words))
    if not shapes:
        raise ModelFileError("the grammar has no class for unknown words")
    rules = _rules(reader, symbols, len(lexicon))
    names = _texts(reader, "attributes")
    pairs = _numbers(reader, "pairs", 2)
    _below(pairs[:, 0], len(names), "an attribute")
    _below(pairs[:, 1], len(symbols), "a tag")
    known = [(names[a], str(symbols[k][1])) for a, k in pairs]
    counts = reader.take("counts", shape=(len(rules),))
    try:
        grammar = Grammar(rules, lexicon, task.shape, known, counts)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise ModelFileError(f"the grammar cannot be built: {shown(repr(error))}") from error
    if grammar.rules != rules or grammar.symbols != symbols:
        raise ModelFileError("the rules or symbols of the grammar are not in order")
    task.set_grammar(grammar)
    return {"coef_": reader.take("coef", shape=(grammar.dim,)), "task_": task}


def _rules(reader: ArrayReader, symbols: list[Symbol], n_classes: int) -> list[Rule]:
    starts, binary = _numbers(reader, "rules.start", 1), _numbers(reader, "rules.binary", 3)
    words = _numbers(reader, "rules.word", 2)
    flat = reader.take("rules.chain", ("int32",))
    lengths = reader.take("rules.chain.lengths", ("int32",))
    for numbers in (starts, binary, words[:, 0], flat):
        _below(numbers, len(symbols), "a symbol")
    _below(words[:, 1], n_classes, "a class of words")
    kinds = np.array([list(_FIELDS).index(symbol[0]) for symbol in symbols], dtype=np.int64)
    tag, phrase, part = 0, 1, 2
    if (lengths < 1).any() or lengths.sum() != len(flat) or len(starts) == 0:
        raise ModelFileError(
            "the chains of the grammar do not fit their lengths, or no rule starts"
        )
    ends = np.cumsum(lengths)
    inner = np.ones(len(flat), dtype=bool)
    inner[ends - 1] = False
    wrong = (
        (kinds[starts] == part).any()
        or (kinds[binary[:, 0]] == tag).any()
        or (kinds[binary[:, 1]] == part).any()
        or (kinds[words[:, 0]] != tag).any()
        or (kinds[flat] == part).any()
        or (kinds[flat[inner]] != phrase).any()
        or (kinds[flat[ends[lengths == 1] - 1]] != phrase).any()
    )
    if wrong:
        raise ModelFileError("the grammar has a symbol of the wrong kind in a rule")
    chains = np.split(flat, ends[:-1]) if len(ends) else []
    return [
        *(("start", symbols[row[0]]) for row in starts),
        *(("chain", tuple(symbols[k] for k in path)) for path in chains),
        *(("binary", *(symbols[k] for k in row)) for row in binary),
        *(("word", symbols[row[0]], int(row[1])) for row in words),
    ]


def _is_symbol(symbol: Any) -> bool:
    if type(symbol) is not tuple or not symbol or type(symbol[0]) is not str:
        return False
    if len(symbol) != 1 + _FIELDS.get(symbol[0], -1):
        return False
    *names, last = symbol[1:]
    if symbol[0] == "part" and type(last) is not tuple:
        return False
    sisters = last if symbol[0] == "part" else (last,)
    return all(type(name) is str for name in (*names, *sisters))


def _texts(reader: ArrayReader, name: str) -> list[str]:
    names = reader.take_names(name)
    if not all(type(entry) is str for entry in names):
        raise ModelFileError(f"the entries of {name!r} are not texts")
    return names


def _numbers(reader: ArrayReader, name: str, width: int) -> AnyArray:
    return reader.take(name, ("int32",), (None, width))


def _below(numbers: AnyArray, end: int, what: str) -> None:
    if numbers.size and (numbers.min() < 0 or numbers.max() >= end):
        raise ModelFileError(f"the grammar names {what} that does not exist")
