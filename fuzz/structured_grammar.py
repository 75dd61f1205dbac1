"""Random problems for GrammarParser: all trees of short sentences are enumerated from the grammar's rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from tests.reference_optima.program import LONG as LD
from tests.reference_optima.structured import Example, Problem

from fuzz import structured_checks as checks
from fuzz import structured_draws as draws
from fuzz.framework import Case, Finding, Outcome
from maxmargin import GrammarParser

NAME = "GrammarParser"
NAMES = ("coef_", "objective_", "lower_bound_", "gap_", "converged_")
#: sentences with more trees are skipped
MOST = 2000


def draw(rng: np.random.Generator) -> Case:
    """A few small trees."""
    tame = draws.maybe(rng, 0.5)
    trees = [_tree(rng, "S", int(rng.integers(1, 5)), 0) for _ in range(int(rng.integers(1, 8)))]
    params: dict[str, Any] = {
        "C": draws.strength(rng, tame),
        "min_count": 1,
        "attributes": False,
        "parents": draws.maybe(rng, 0.5),
        "horizontal": [None, 0, 1][int(rng.integers(3))],
    }
    params |= draws.tolerance(rng, tame)
    if draws.maybe(rng, 0.3):
        params["loss"] = "zero_one"
    elif draws.maybe(rng, 0.3):
        params["wrong_cost"] = draws.power(rng, -2, 2)
    if draws.maybe(rng, 0.2):
        params["solver"] = "CuttingPlane()"
    data = {
        "tame": tame,
        "trees": trees,
        "sample_weight": draws.weights(rng, len(trees)),
        "params": params,
        "more": str(rng.choice(["", "n_jobs", "saved"], p=[0.7, 0.15, 0.15])),
    }
    return Case(NAME, f"{params.get('loss', 'span')} {'tame' if tame else 'wild'}", 0, data)


def _tree(rng: np.random.Generator, label: str, length: int, depth: int) -> Any:
    """A phrase of ``length`` words."""
    if draws.maybe(rng, 0.2) and depth < 3:
        return (label, _tree(rng, str(rng.choice(["A", "B"])), length, depth + 1))
    if length == 1:
        return (label, _tag(rng))
    cuts = int(rng.integers(2, min(length, 3) + 1))
    sizes = np.ones(cuts, dtype=int)
    for _ in range(length - cuts):
        sizes[rng.integers(cuts)] += 1
    children = []
    for size in sizes:
        if size == 1 and draws.maybe(rng, 0.6):
            children.append(_tag(rng))
        else:
            children.append(_tree(rng, str(rng.choice(["A", "B"])), int(size), depth + 1))
    return (label, *children)


def _tag(rng: np.random.Generator) -> Any:
    return (str(rng.choice(["t", "u"])), str(rng.choice(["a", "b", "c"])))


def _is_tag(node: Any) -> bool:
    return len(node) == 2 and isinstance(node[1], str)


def _words(node: Any) -> list[str]:
    return [node[1]] if _is_tag(node) else [word for child in node[1:] for word in _words(child)]


def _brackets(node: Any, first: int = 0) -> tuple[Counter[Any], int]:
    """(label, first word, last word + 1) of all phrases, and the end of the node."""
    if _is_tag(node):
        return Counter(), first + 1
    out: Counter[Any] = Counter()
    end = first
    for child in node[1:]:
        more, end = _brackets(child, end)
        out += more
    out[(node[0], first, end)] += 1
    return out, end


class Listing:
    """All derivations of a sentence: (rules, forest), where a forest is the list of trees below a symbol."""

    def __init__(self, rules: list[Any], numbers: list[int]) -> None:
        self.numbers, self.rules = numbers, rules
        self.by_left: dict[Any, list[Any]] = {}
        self.chains: dict[Any, list[Any]] = {}
        for k, rule in enumerate(rules):
            if rule[0] == "binary":
                self.by_left.setdefault(rule[1], []).append((k, rule))
            elif rule[0] == "chain":
                self.chains.setdefault(rule[1][0], []).append((k, rule[1]))
        self.word = {rule[1:]: k for k, rule in enumerate(rules) if rule[0] == "word"}
        self.known: dict[Any, Any] = {}

    def trees(self, words: list[str]) -> list[tuple[tuple[int, ...], Any]]:
        """(rules, tree) of the whole sentence."""
        self.words = words
        out = []
        for k, rule in enumerate(self.rules):
            if rule[0] == "start":
                out += [((k, *r), f[0]) for r, f in self.upper(rule[1], 0, len(words))]
        return out

    def upper(self, symbol: Any, i: int, j: int) -> list[Any]:
        key = (symbol, i, j)
        if key not in self.known:
            self.known[key] = self._upper(symbol, i, j)
        return self.known[key]

    def _upper(self, symbol: Any, i: int, j: int) -> list[Any]:
        if symbol[0] == "part":
            return self.split(symbol, i, j)
        if symbol[0] == "tag":
            return self.leaf(symbol, i, j)
        out = []
        for k, path in self.chains.get(symbol, ()):
            last = path[-1]
            if last[0] == "tag":
                below = self.leaf(last, i, j)
                labels = path[:-1]
            else:
                below, labels = self.split(last, i, j), path
            for rules, forest in below:
                node: Any = forest
                for s in reversed(labels):
                    node = ((s[1], *node),)
                out.append(((k, *rules), node))
        return out

    def leaf(self, symbol: Any, i: int, j: int) -> list[Any]:
        if j != i + 1 or (symbol, self.numbers[i]) not in self.word:
            return []
        return [((self.word[symbol, self.numbers[i]],), ((symbol[1], self.words[i]),))]

    def split(self, symbol: Any, i: int, j: int) -> list[Any]:
        out = []
        for k, (_, _, left, right) in self.by_left.get(symbol, ()):
            for m in range(i + 1, j):
                for rules, forest in self.upper(left, i, m):
                    for more, rest in self.upper(right, m, j):
                        out.append(((k, *rules, *more), (*forest, *rest)))
        return out


def _fit(case: Case, **changes: Any) -> GrammarParser:
    trees, weight = case.data["trees"], case.data["sample_weight"]
    return GrammarParser(**checks.params(case, **changes)).fit(None, trees, sample_weight=weight)


def run(case: Case) -> Outcome:
    """Fit and check."""
    return checks.attempt(case, lambda: _fit(case), lambda fit: _check(case, fit))


def _check(case: Case, fit: checks.Fit) -> list[Finding]:
    model, params, trees = fit.model, case.data["params"], case.data["trees"]
    rules, d = model.grammar_.rules, len(model.coef_)
    examples, listed, psis = [], [], []
    for tree in trees:
        words = _words(tree)
        numbers = [model.grammar_.lexicon.number(word) for word in words]
        found = Listing(rules, numbers).trees(words)
        if len(found) > MOST:
            return []
        psi = np.zeros((len(found), d), dtype=LD)
        for row, (used, _) in zip(psi, found, strict=True):
            np.add.at(row, list(used), 1)
        outputs = [t for _, t in found]
        if outputs.count(tree) != 1:
            return [Finding("grammar", f"the tree {tree} is derived {outputs.count(tree)} times")]
        truth = outputs.index(tree)
        own, _ = _brackets(tree)
        losses = []
        for output in outputs:
            theirs, _ = _brackets(output)
            if params.get("loss") == "zero_one":
                losses.append(float(output != tree))
            else:
                wrong = sum((theirs - own).values())
                losses.append(
                    LD(params.get("wrong_cost", 1.0)) * wrong + sum((own - theirs).values())
                )
        examples.append(Example.of(psi, truth, losses))
        listed.append(outputs)
        psis.append(psi)
    s = np.array(case.data["sample_weight"] or [1.0] * len(trees), dtype=LD)
    problem = Problem(examples, LD(params["C"]) * s)
    demanding = case.data["tame"] and "solver" not in params
    out = checks.certificate(
        fit, problem, model.coef_, params.get("tol", 5e-2), demanding=demanding
    )
    for i, tree in enumerate(model.predict([_words(t) for t in trees])):
        scores, noise = checks.scores_of(psis[i], model.coef_)
        out += checks.argmax(scores, listed[i].index(tree), noise, f"sentence {i}")
    return out + checks.repeated(case, model, partial(_fit, case), NAMES)


def reproduce(case: Case) -> str:
    """A few lines of Python code."""
    data = case.data
    return draws.code(
        f"trees = {data['trees']!r}",
        f"m = GrammarParser({draws.keywords(data['params'])})",
        f"m.fit(None, trees, sample_weight={data['sample_weight']})",
        "print(m.objective_, m.lower_bound_, m.stop_reason_, m.coef_)",
    )


def smaller(case: Case) -> Iterator[Case]:
    """Fewer trees and parameters."""
    yield from draws.fewer_examples(case, ("trees", "sample_weight"))
    yield from draws.fewer_options(case, keep=("C", "min_count", "attributes", "horizontal"))
