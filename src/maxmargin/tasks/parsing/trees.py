"""Constituency trees: nested tuples, read from and written to brackets, and compared by their brackets.

A tree is ``(label, child, ...)``; a child is a tree, and the one child of a *tag* is its word:

    ("S", ("NP", ("DT", "the"), ("NN", "cat")), ("VP", ("VBD", "sat")))

A *constituent* is a node that is not a tag, seen as (label, first word, last word + 1).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

#: (label, child, ...), or (tag, word)
Tree: TypeAlias = tuple[Any, ...]

_TOKEN = re.compile(r"[()]|[^\s()]+")
#: labels of nodes that only hold a sentence's tree
_ROOTS = ("", "ROOT", "TOP", "S1")


# -- reading and writing ---------------------------------------------------------------------------


def read_trees(text: str) -> list[Tree]:
    """All trees of a text of brackets.

    Parameters
    ----------
    text : str
        Trees such as ``(S (NP (DT the) (NN cat)) (VP (VBD sat)))``, one after the other; line breaks
        have no meaning. A node without a label, as around the Penn Treebank's trees, has the label "".

    Returns
    -------
    list of nested tuples
        The trees.

    Examples
    --------
    >>> from maxmargin.tasks.parsing.trees import read_trees
    >>> read_trees("(S (NP (PRP it)) (VP (VBZ rains)))")
    [('S', ('NP', ('PRP', 'it')), ('VP', ('VBZ', 'rains')))]
    """
    trees: list[Tree] = []
    stack: list[list[Any]] = []
    for token in _TOKEN.findall(text):
        if token == "(":
            stack.append([])
        elif token == ")":
            if not stack:
                raise ValueError(f"after {len(trees)} trees: a bracket is closed but not opened.")
            node = _closed(stack.pop())
            if stack:
                if not stack[-1]:
                    stack[-1].append("")
                stack[-1].append(node)
            else:
                trees.append(node)
        elif not stack:
            raise ValueError(f"after {len(trees)} trees: {token!r} stands outside of all brackets.")
        else:
            stack[-1].append(token)
    if stack:
        raise ValueError(f"after {len(trees)} trees: {len(stack)} brackets are not closed.")
    return trees


def _closed(parts: list[Any]) -> Tree:
    if len(parts) < 2:
        raise ValueError(f"a node {tuple(parts)!r} has no children.")
    return tuple(parts)


def write_tree(tree: Any) -> str:
    """A tree as brackets on one line; brackets inside words become ``-LRB-`` and ``-RRB-``.

    Examples
    --------
    >>> from maxmargin.tasks.parsing.trees import write_tree
    >>> write_tree(("NP", ("DT", "the"), ("NN", "cat")))
    '(NP (DT the) (NN cat))'
    """
    if isinstance(tree, str):
        return tree.replace("(", "-LRB-").replace(")", "-RRB-")
    tree = as_tree(tree)
    return f"({tree[0]} {' '.join(write_tree(child) for child in tree[1:])})"


def as_tree(tree: Any) -> Tree:
    """A tree from brackets, nested tuples or lists, or objects of nltk's kind.

    Objects of nltk's kind iterate over their children and tell their label by a method ``label()``.
    Raises ValueError unless every word has a tag of its own.
    """
    if isinstance(tree, str):
        found = read_trees(tree)
        if len(found) != 1:
            raise ValueError(f"one tree was wanted, but the text holds {len(found)}: {tree!r}")
        tree = found[0]
    return _as_tuple(tree)


def _as_tuple(node: Any) -> Tree:
    if callable(getattr(node, "label", None)):
        label, children = node.label(), list(node)
    elif isinstance(node, list | tuple) and len(node) >= 2 and isinstance(node[0], str):
        label, children = node[0], list(node[1:])
    else:
        raise ValueError(
            f"{node!r} is not a tree: use brackets, ('label', child, ...) or nltk's Tree."
        )
    if len(children) == 1 and isinstance(children[0], str):
        return (str(label), str(children[0]))
    if not children:
        raise ValueError(f"the node {label!r} has no children.")
    if any(isinstance(child, str) for child in children):
        raise ValueError(
            f"the node {label!r} holds words beside other children: every word needs a tag of its own, "
            "as in (NN cat)."
        )
    return (str(label), *(_as_tuple(child) for child in children))


def is_tag(node: Tree) -> bool:
    """Whether a node is a tag: its one child is a word."""
    return len(node) == 2 and isinstance(node[1], str)


def clean(
    tree: Any, *, strip_functions: bool = True, drop_empty: bool = True, unwrap_root: bool = True
) -> Tree | None:
    """A treebank's tree as a parser wants it.

    Parameters
    ----------
    tree : tree
        Brackets, nested tuples or nltk's kind.
    strip_functions : bool, default True
        ``NP-SBJ`` and ``NP=2`` become ``NP``; labels that begin with a hyphen (``-LRB-``) stay.
    drop_empty : bool, default True
        Tags ``-NONE-``, and nodes that hold nothing else, go.
    unwrap_root : bool, default True
        Nodes "", ROOT, TOP or S1 with one child go.

    Returns
    -------
    tree or None
        None if nothing is left.

    Examples
    --------
    >>> from maxmargin.tasks.parsing.trees import clean, write_tree
    >>> write_tree(clean("(ROOT (S (NP-SBJ (-NONE- *)) (VP (VB Go))))"))
    '(S (VP (VB Go)))'
    """
    node = _cleaned(as_tree(tree), strip_functions, drop_empty)
    while unwrap_root and node is not None and node[0] in _ROOTS and len(node) == 2:
        if is_tag(node):
            break
        node = node[1]
    return node


def _cleaned(node: Tree, strip: bool, drop: bool) -> Tree | None:
    if is_tag(node):
        return None if drop and node[0] == "-NONE-" else node
    children = [child for c in node[1:] if (child := _cleaned(c, strip, drop)) is not None]
    label = node[0]
    if strip and not label.startswith("-"):
        label = re.split(r"[-=]", label, maxsplit=1)[0]
    return (label, *children) if children else None


# -- looking at trees ------------------------------------------------------------------------------


def tagged_words(tree: Tree) -> Iterator[tuple[str, str]]:
    """(tag, word) of every word, from left to right."""
    if is_tag(tree):
        yield tree[0], tree[1]
    else:
        for child in tree[1:]:
            yield from tagged_words(child)


def words(tree: Any) -> list[str]:
    """The sentence of a tree.

    Examples
    --------
    >>> from maxmargin.tasks.parsing.trees import words
    >>> words("(NP (DT the) (NN cat))")
    ['the', 'cat']
    """
    return [word for _, word in tagged_words(as_tree(tree))]


def constituents(tree: Tree) -> list[tuple[str, int, int]]:
    """(label, first word, last word + 1) of every node that is not a tag, parents first."""
    found: list[tuple[str, int, int]] = []

    def visit(node: Tree, start: int) -> int:
        if is_tag(node):
            return start + 1
        place = len(found)
        found.append((node[0], start, start))
        end = start
        for child in node[1:]:
            end = visit(child, end)
        found[place] = (node[0], start, end)
        return end

    visit(tree, 0)
    return found


class BracketScore(NamedTuple):
    """Labeled brackets in common, of those predicted (precision) and of those wanted (recall)."""

    precision: float
    recall: float
    f1: float
    exact: float


def bracket_score(
    gold: Iterable[Any], predicted: Iterable[Any], ignore: Sequence[str] = ()
) -> BracketScore:
    """Labeled bracket precision, recall and F1 over all trees together, and the share of exact trees.

    Brackets are compared as multisets of (label, first word, last word + 1); tags are not brackets.
    Unlike ``evalb`` nothing is left out: punctuation counts as words, and the outermost bracket counts
    unless its label is in ``ignore``.

    Parameters
    ----------
    gold, predicted : iterables of trees
        In the same order.
    ignore : sequence of str
        Labels that do not count, such as ``("ROOT",)``.

    Returns
    -------
    BracketScore
        precision, recall, f1, exact.

    Examples
    --------
    >>> from maxmargin.tasks.parsing.trees import bracket_score
    >>> score = bracket_score(["(S (NP (A a) (B b)) (C c))"], ["(S (A a) (NP (B b) (C c)))"])
    >>> score.precision, score.recall, score.f1, score.exact
    (0.5, 0.5, 0.5, 0.0)
    """
    right = n_gold = n_predicted = exact = n = 0
    for a, b in zip(gold, predicted, strict=True):
        truth, guess = as_tree(a), as_tree(b)
        wanted = Counter(c for c in constituents(truth) if c[0] not in ignore)
        found = Counter(c for c in constituents(guess) if c[0] not in ignore)
        right += (wanted & found).total()
        n_gold += wanted.total()
        n_predicted += found.total()
        exact += truth == guess
        n += 1
    precision = right / n_predicted if n_predicted else 1.0
    recall = right / n_gold if n_gold else 1.0
    f1 = 2.0 * right / (n_gold + n_predicted) if n_gold + n_predicted else 1.0
    return BracketScore(precision, recall, f1, exact / n if n else 1.0)
