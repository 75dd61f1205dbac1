"""Grammars in a model file: symbols and words by name, rules as indices of symbols."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.estimators.structured.grammar_parser import GrammarParser
from maxmargin.files.codec import FormatError
from maxmargin.persistence._fields import Field, Fields, Sizes, array, integers, labels, section
from maxmargin.tasks.parsing.grammar import Grammar, Rule, Symbol
from maxmargin.tasks.parsing.lexicon import Lexicon
from maxmargin.tasks.parsing.parsing import Parsing

_OPTIONS = (
    "loss", "wrong_cost", "horizontal", "parents", "attributes", "min_count", "beam", "max_exact_length",
)  # fmt: skip
#: kinds of symbols, and how many fields each has beside its kind
_SYMBOLS = {"tag": 1, "phrase": 2, "part": 3}
_TAG, _PHRASE, _PART = range(3)


PARSER: Fields = {
    "options": Field(lambda value, name, sizes: value),
    "symbols": labels("symbols", tuple),
    "words": labels("words", str),
    "shapes": labels("shapes", str),
    "names": labels("names", str),
    "starts": integers(None, below="symbols"),
    "binary": integers(None, 3, below="symbols"),
    "word_tags": integers("word rules", below="symbols"),
    "word_classes": integers("word rules"),
    "chains": integers(None, below="symbols"),
    "chain_lengths": integers(None, least=1),
    "pair_names": integers("pairs", below="names"),
    "pair_tags": integers("pairs", below="symbols"),
    "counts": array(None),
    "coef_": array(None),
}


def parser_values(est: GrammarParser) -> dict[str, Any]:
    """A fitted parser as plain values and arrays."""
    grammar: Grammar = est.task_.grammar
    number = {symbol: k for k, symbol in enumerate(grammar.symbols)}
    lexicon = grammar.lexicon
    rules: dict[str, list[Any]] = {"start": [], "binary": [], "word": [], "chain": []}
    for rule in grammar.rules:
        rules[rule[0]].append(rule[1:])
    names = list(dict.fromkeys(name for name, _ in grammar.pairs))
    place = {name: k for k, name in enumerate(names)}

    def numbers(symbols: Any) -> Any:
        return np.array([number[symbol] for symbol in symbols], dtype=np.int32)

    def ints(values: Any) -> Any:
        return np.array(list(values), dtype=np.int32)

    return {
        "options": {name: getattr(est, name) for name in _OPTIONS},
        "symbols": list(grammar.symbols),
        "words": list(lexicon.names[: lexicon.n_words]),
        "shapes": list(lexicon.names[lexicon.n_words :]),
        "names": names,
        "starts": numbers(symbol for (symbol,) in rules["start"]),
        "binary": numbers(symbol for row in rules["binary"] for symbol in row).reshape(-1, 3),
        "word_tags": numbers(tag for tag, _ in rules["word"]),
        "word_classes": ints(k for _, k in rules["word"]),
        "chains": numbers(symbol for (path,) in rules["chain"] for symbol in path),
        "chain_lengths": ints(len(path) for (path,) in rules["chain"]),
        "pair_names": ints(place[name] for name, _ in grammar.pairs),
        "pair_tags": numbers(("tag", tag) for _, tag in grammar.pairs),
        "counts": grammar.counts,
        "coef_": est.coef_,
    }


def read_parser(stored: dict[str, Any], sizes: Sizes) -> dict[str, Any]:
    """The attributes of a fitted parser."""
    task = Parsing(**section(stored["options"], "the options of the parser", _OPTIONS))
    symbols, words, names = stored["symbols"], stored["words"], stored["names"]
    if not all(_is_symbol(symbol) for symbol in symbols):
        raise FormatError("the symbols of the grammar are of an unknown form")
    n_classes = len(words) + len(stored["shapes"])
    if not stored["shapes"] or (stored["word_classes"] >= n_classes).any():
        raise FormatError(
            "the grammar has no class for unknown words, or names one that does not exist"
        )
    rules = _rules(stored, symbols)
    tags = zip(stored["pair_names"], stored["pair_tags"], strict=True)
    pairs = [(names[a], str(symbols[k][1])) for a, k in tags]
    lexicon = Lexicon([*words, *stored["shapes"]], len(words))
    if len(stored["counts"]) != len(rules):
        raise FormatError("the grammar does not have one count per rule")
    grammar = Grammar(rules, lexicon, task.shape, pairs, stored["counts"])
    if grammar.rules != rules or grammar.symbols != symbols:
        raise FormatError("the rules or symbols of the grammar are not in order")
    if len(stored["coef_"]) != grammar.dim:
        raise FormatError(f"{len(stored['coef_'])} weights where the grammar needs {grammar.dim}")
    task.set_grammar(grammar)
    return {"coef_": stored["coef_"], "task_": task}


def _rules(stored: dict[str, Any], symbols: list[Symbol]) -> list[Rule]:
    starts, binary, words = stored["starts"], stored["binary"], stored["word_tags"]
    flat, lengths = stored["chains"], stored["chain_lengths"]
    kinds = np.array([list(_SYMBOLS).index(symbol[0]) for symbol in symbols], dtype=np.int64)
    if lengths.sum() != len(flat) or len(starts) == 0:
        raise FormatError("the chains of the grammar do not fit their lengths, or no rule starts")
    ends = np.cumsum(lengths)
    inner = np.ones(len(flat), dtype=bool)
    inner[ends - 1] = False
    wrong = (
        (kinds[starts] == _PART).any()
        or (kinds[binary[:, 0]] == _TAG).any()
        or (kinds[binary[:, 1]] == _PART).any()
        or (kinds[words] != _TAG).any()
        or (kinds[flat] == _PART).any()
        or (kinds[flat[inner]] != _PHRASE).any()
        or (kinds[flat[ends[lengths == 1] - 1]] != _PHRASE).any()
    )
    if wrong:
        raise FormatError("the grammar has a symbol of the wrong kind in a rule")
    chains = np.split(flat, ends[:-1]) if len(ends) else []
    tags = zip(words, stored["word_classes"], strict=True)
    return [
        *(("start", symbols[k]) for k in starts),
        *(("chain", tuple(symbols[k] for k in path)) for path in chains),
        *(("binary", *(symbols[k] for k in row)) for row in binary),
        *(("word", symbols[tag], int(k)) for tag, k in tags),
    ]


def _is_symbol(symbol: Any) -> bool:
    kind, *names = symbol
    if type(kind) is not str or len(names) != _SYMBOLS.get(kind):
        return False
    if kind == "part":
        if type(names[-1]) is not tuple:
            return False
        names += names.pop()
    return all(type(name) is str for name in names)
