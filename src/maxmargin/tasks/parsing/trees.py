"""Constituency trees as nested tuples: reading, writing and scoring.

A tree is ``(label, child, ...)``. A child is a tree; the only child of a *tag* is its word:

    ("S", ("NP", ("DT", "the"), ("NN", "cat")), ("VP", ("VBD", "sat")))

A *constituent* or bracket is a node that is not a tag, represented as (label, first word, last word + 1).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

#: (label, child, ...), or (tag, word)
Tree: TypeAlias = tuple[Any, ...]

_TOKEN = re.compile(r"[()]|[^\s()]+")
#: labels of root nodes that only wrap the tree of a sentence
_ROOTS = ("", "ROOT", "TOP", "S1")


# -- reading and writing ---------------------------------------------------------------------------


def read_trees(text: str) -> list[Tree]:
    """Read all trees of a string in bracket notation.

    Parameters
    ----------
    text : str
        Trees such as ``(S (NP (DT the) (NN cat)) (VP (VBD sat)))``, one after another. Line breaks are
        ignored. A node without a label, as around the trees of the Penn Treebank, gets the label "".

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
                raise ValueError(
                    f"tree {len(trees)}: there is a closing bracket without an opening bracket."
                )
            node = _closed(stack.pop())
            if stack:
                if not stack[-1]:
                    stack[-1].append("")
                stack[-1].append(node)
            else:
                trees.append(node)
        elif not stack:
            raise ValueError(f"tree {len(trees)}: {token!r} is outside of all brackets.")
        else:
            stack[-1].append(token)
    if stack:
        raise ValueError(f"tree {len(trees)}: {len(stack)} brackets are not closed.")
    return trees


def _closed(parts: list[Any]) -> Tree:
    if len(parts) < 2:
        raise ValueError(f"the node {tuple(parts)!r} has no children. Write (label child ...).")
    return tuple(parts)


def write_tree(tree: Any) -> str:
    """Write a tree in bracket notation on one line; brackets in words become ``-LRB-`` and ``-RRB-``.

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
    """Convert bracket notation, nested tuples or lists, or an NLTK tree to nested tuples.

    Any object with a method ``label()`` that iterates over its children is treated as an NLTK tree. Raises a
    ValueError if a word does not have its own tag.
    """
    if isinstance(tree, str):
        found = read_trees(tree)
        if len(found) != 1:
            raise ValueError(f"expected one tree, but the string has {len(found)}: {tree!r}")
        tree = found[0]
    return _as_tuple(tree)


def _as_tuple(node: Any) -> Tree:
    if callable(getattr(node, "label", None)):
        label, children = node.label(), list(node)
    elif isinstance(node, list | tuple) and len(node) >= 2 and isinstance(node[0], str):
        label, children = node[0], list(node[1:])
    else:
        raise ValueError(
            f"{node!r} is not a tree: use bracket notation, ('label', child, ...) or an NLTK Tree."
        )
    if len(children) == 1 and isinstance(children[0], str):
        return (str(label), str(children[0]))
    if not children:
        raise ValueError(f"the node {label!r} has no children.")
    if any(isinstance(child, str) for child in children):
        raise ValueError(
            f"the node {label!r} has words next to other children. Give every word its own tag, as in "
            "(NN cat)."
        )
    return (str(label), *(_as_tuple(child) for child in children))


def is_tag(node: Tree) -> bool:
    """Whether a node is a tag: its only child is a word."""
    return len(node) == 2 and isinstance(node[1], str)


def clean(
    tree: Any, *, strip_functions: bool = True, drop_empty: bool = True, unwrap_root: bool = True
) -> Tree | None:
    """Prepare a tree of a treebank for parsing.

    Parameters
    ----------
    tree : tree
        Bracket notation, nested tuples or an NLTK tree.
    strip_functions : bool, default True
        Whether ``NP-SBJ`` and ``NP=2`` become ``NP``. Labels that start with a hyphen (``-LRB-``) are kept.
    drop_empty : bool, default True
        Whether to remove ``-NONE-`` tags and the nodes that contain nothing else.
    unwrap_root : bool, default True
        Whether to remove root nodes "", ROOT, TOP and S1 with a single child.

    Returns
    -------
    tree or None
        The tree, or None if it is empty.

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


# -- properties of trees ---------------------------------------------------------------------------


def tagged_words(tree: Tree) -> Iterator[tuple[str, str]]:
    """Pairs (tag, word) of all words, from left to right."""
    if is_tag(tree):
        yield tree[0], tree[1]
    else:
        for child in tree[1:]:
            yield from tagged_words(child)


def words(tree: Any) -> list[str]:
    """The words of a tree.

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
    """Labeled bracket precision, recall and F1, and the fraction of exactly correct trees."""

    precision: float
    recall: float
    f1: float
    exact: float


def bracket_score(
    gold: Iterable[Any], predicted: Iterable[Any], ignore: Sequence[str] = ()
) -> BracketScore:
    """Labeled bracket precision, recall and F1 over all trees, and the fraction of exactly correct trees.

    Brackets are compared as multisets of (label, first word, last word + 1); tags are not brackets. Unlike
    ``evalb``, this includes punctuation, and the outermost bracket unless its label is in ``ignore``.

    Parameters
    ----------
    gold, predicted : iterables of trees
        In the same order.
    ignore : sequence of str
        Labels to ignore, such as ``("ROOT",)``.

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
