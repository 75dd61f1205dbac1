"""Grammars in a model file: rules and words as plain values."""

from __future__ import annotations

from typing import Any

from maxmargin.estimators.structured.grammar_parser import GrammarParser
from maxmargin.files.codec import FormatError
from maxmargin.persistence._fields import Field, Fields, Sizes, array, count, labels, section
from maxmargin.tasks.parsing.grammar import Grammar, Rule, Symbol
from maxmargin.tasks.parsing.lexicon import Lexicon
from maxmargin.tasks.parsing.parsing import Parsing

_OPTIONS = (
    "loss", "wrong_cost", "horizontal", "parents", "attributes", "min_count", "beam", "max_exact_length",
)  # fmt: skip

PARSER: Fields = {
    "options": Field(lambda value, name, sizes: section(value, name, _OPTIONS)),
    "rules": labels("rules", tuple),
    "word_classes": labels("word classes", str),
    "n_words": count(),
    "pairs": labels("pairs", tuple),
    "counts": array("rules"),
    "coef_": array(None),
}


def parser_values(est: GrammarParser) -> dict[str, Any]:
    """A fitted parser as plain values and arrays."""
    grammar: Grammar = est.task_.grammar
    return {
        "options": {name: getattr(est, name) for name in _OPTIONS},
        "rules": grammar.rules,
        "word_classes": grammar.lexicon.names,
        "n_words": grammar.lexicon.n_words,
        "pairs": grammar.pairs,
        "counts": grammar.counts,
    }


def read_parser(stored: dict[str, Any], sizes: Sizes) -> dict[str, Any]:
    """The attributes of a fitted parser."""
    task, rules = Parsing(**stored["options"]), stored["rules"]
    lexicon = Lexicon(stored["word_classes"], stored["n_words"])
    known = range(len(lexicon))
    if stored["n_words"] not in known:
        raise FormatError("the grammar has no class for unknown words")
    if not all(_is_rule(rule, known) for rule in rules) or not any(r[0] == "start" for r in rules):
        raise FormatError("the grammar has a rule of an unknown form, or none that starts")
    if not all(_is(pair, str, str) for pair in stored["pairs"]):
        raise FormatError("the grammar has a pair that is not an attribute and a tag")
    grammar = Grammar(rules, lexicon, task.shape, stored["pairs"], stored["counts"])
    if grammar.rules != rules:
        raise FormatError("the rules of the grammar are not in order")
    if len(stored["coef_"]) != grammar.dim:
        raise FormatError(f"{len(stored['coef_'])} weights where the grammar needs {grammar.dim}")
    task.set_grammar(grammar)
    return {"coef_": stored["coef_"], "task_": task}


def _is_rule(rule: Rule, word_classes: range) -> bool:
    """Whether every symbol of a rule is of a kind that the packed grammar has room for there."""
    match rule:
        case ("start", top):
            return _symbol(top) in ("tag", "phrase")
        case ("chain", (*above, bottom)):
            ends = ("tag", "phrase") if above else ("phrase",)
            return all(_symbol(symbol) == "phrase" for symbol in above) and _symbol(bottom) in ends
        case ("binary", parent, left, right):
            return (
                _symbol(parent) in ("phrase", "part")
                and _symbol(left) in ("tag", "phrase")
                and _symbol(right) != ""
            )
        case ("word", tag, k):
            return _symbol(tag) == "tag" and type(k) is int and k in word_classes
    return False


def _symbol(symbol: Symbol) -> str:
    """The kind of a symbol; empty if it is none."""
    match symbol:
        case ("tag", name) if _is((name,), str):
            return "tag"
        case ("phrase", *names) if _is(tuple(names), str, str):
            return "phrase"
        case ("part", label, parent, tuple(sisters)):
            return "part" if _is((label, parent, *sisters), str, str, *[str] * len(sisters)) else ""
    return ""


def _is(value: object, *kinds: type) -> bool:
    return type(value) is tuple and tuple(map(type, value)) == kinds
