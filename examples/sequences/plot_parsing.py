"""
Parsing an ambiguous sentence
=============================

"The girl saw the man with the telescope" has two trees: either the girl looks through the telescope, or the
man carries it. :class:`~maxmargin.GrammarParser` learns from a tiny treebank which tree is better, and can
also return the other.
"""

import matplotlib.pyplot as plt

from maxmargin import GrammarParser
from maxmargin.tasks.parsing.trees import is_tag, read_trees, words

# %%
# A treebank
# ----------
# After *saw*, *with* attaches to the verb; *of* attaches to the noun.

trees = read_trees(
    """
    (S (NP (DT the) (NN girl))
       (VP (VBD saw) (NP (DT the) (NN star)) (PP (IN with) (NP (DT a) (NN lens)))))
    (S (NP (DT a) (NN man))
       (VP (VBD saw) (NP (DT the) (NN girl)) (PP (IN with) (NP (DT the) (NN lamp)))))
    (S (NP (DT the) (NN girl))
       (VP (VBD drew) (NP (NP (DT a) (NN map)) (PP (IN of) (NP (DT the) (NN moon))))))
    (S (NP (DT the) (NN man))
       (VP (VBD saw) (NP (NP (DT the) (NN light)) (PP (IN of) (NP (DT a) (NN lamp))))))
    (S (NP (NP (DT the) (NN man)) (PP (IN with) (NP (DT the) (NN map)))) (VP (VBD slept)))
    (S (NP (DT the) (NN girl)) (VP (VBD slept)))
    """
)
parser = GrammarParser(C=10.0, min_count=1).fit([words(tree) for tree in trees], trees)
print(f"{len(parser.grammar_.rules)} rules, gap {parser.gap_:.3f}, {parser.certificate_}")

# %%
# The two best trees
# ------------------
# The search is exact, and so are the two best trees. Neither the sentence nor the word *telescope* is in
# the treebank.

sentence = ["the", "girl", "saw", "the", "man", "with", "the", "telescope"]
best = parser.predict_k_best([sentence], k=2)[0]


def draw(axis, node, left=0.0):
    """Draw a node above its children; return (x, depth, next free column)."""
    if is_tag(node):
        axis.text(left, 0, node[1], ha="center", style="italic", fontsize=9)
        axis.text(left, 1, node[0], ha="center", fontsize=9, color="tab:blue")
        return left, 1, left + 1
    spots = []
    for child in node[1:]:
        x, height, left = draw(axis, child, left)
        spots.append((x, height))
    x = sum(spot[0] for spot in spots) / len(spots)
    top = 1 + max(height for _, height in spots)
    for child_x, height in spots:
        axis.plot([x, child_x], [top - 0.12, height + 0.35], color="0.6", lw=1)
    axis.text(x, top, node[0], ha="center", fontsize=10, weight="bold")
    return x, top, left


figure, axes = plt.subplots(1, 2, figsize=(11, 3.6), sharey=True)
for axis, (tree, score) in zip(axes, best, strict=True):
    draw(axis, tree)
    axis.set_title(f"score {score:.2f}", fontsize=10)
    axis.set_xlim(-0.6, len(sentence) - 0.4)
    axis.set_ylim(-0.3, 7)
    axis.axis("off")
figure.tight_layout()

# %%
# In the best tree, the girl looks through the telescope, because this is how the treebank uses *with* after
# *saw*. The second tree, in which the man has the telescope, is also a tree of the grammar, with a lower
# score.

plt.show()
