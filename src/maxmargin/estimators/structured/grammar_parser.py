"""GrammarParser: parse trees of sentences by a weighted context-free grammar."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

from sklearn.utils.validation import check_is_fitted

from maxmargin.core.checks import integer
from maxmargin.core.result import Start
from maxmargin.estimators.base import CertifiedEstimator
from maxmargin.estimators.checkpoint import FitCheckpoint
from maxmargin.estimators.constraints import (
    Callbacks,
    File,
    Method,
    Numbers,
    Resumable,
    Seed,
    Tolerance,
    Workers,
    of_class,
    one_of,
)
from maxmargin.estimators.example_checks import check_example_weights, check_pairs
from maxmargin.estimators.outcome import certified_fit
from maxmargin.risks import TaskRisk
from maxmargin.solvers import AutoStructured
from maxmargin.tasks.parsing.parsing import Parsing
from maxmargin.tasks.parsing.trees import Tree, as_tree, bracket_score, words


@dataclass(eq=False, repr=False)
class GrammarParser(CertifiedEstimator):
    """Parsing by a weighted context-free grammar, trained with a large margin and a certificate.

    The grammar is read from the training trees. The score of a tree is the sum of the weights of its rules,
    and the best tree is found by an exact search (CKY).

    Parameters
    ----------
    C : float, default 1.0
        Weight of the loss relative to the regularization. The larger, the more closely the model fits the
        training data. It multiplies a sum over sentences.
    loss : {"span", "zero_one"}, default "span"
        The training loss: the number of wrong and missing brackets, or whether the tree is wrong.
    wrong_cost : float, default 1.0
        With the span loss: the cost of a wrong bracket. A missing one costs 1.
    tol : float or stopping rule, default 0.05
        Relative gap ``(objective_ - lower_bound_) / objective_`` at which the fit stops. For another
        criterion, pass a stopping rule such as :class:`maxmargin.solvers.AbsoluteGap`. The accuracy usually
        stops improving well before the default is reached.
    horizontal : int or None, default 1
        Nodes with more than two children are binarized. This is the number of siblings that the symbols made
        for that remember; None means all of them.
    parents : bool, default True
        Whether symbols include the parent of a phrase: then an NP below S and an NP below VP are different
        symbols. Predicted trees have plain labels.
    attributes : bool, default True
        Whether forms, suffixes, shapes and neighbors of words have weights for each tag. If False, only rules
        have weights.
    min_count : int, default 2
        Words that occur less often than this are represented by their shape and suffix only, like unknown
        words.
    beam : int, optional
        For sentences of more than ``max_exact_length`` words: the number of symbols that each span keeps. By
        default the search is exact. If training sentences are that long, no upper bound is known, and the
        certificate is "lower_only".
    max_exact_length : int, default 40
        Number of words up to which the search is exact. Ignored without a ``beam``.
    solver : "auto" or solver object, default "auto"
        The optimization method; see :mod:`maxmargin.solvers`. "auto" is
        :class:`maxmargin.solvers.DualCoordinate`.
    max_iter : int, optional
        Maximum number of iterations. When it is reached, the best point found is returned with its bounds.
    max_seconds : float, optional
        Time limit of the fit in seconds. When it is reached, the best point found is returned with its
        bounds.
    n_jobs : int, optional
        Number of workers. None means 1 (on a Ray cluster, 1 per machine), and -1 means all cores. Results are
        bit-identical for any number from two on. With one worker, ``solver="auto"`` may choose another
        method.
    engine : {"threads", "processes", "ray", "ray://host:port"} or engine object, default "threads"
        What the workers are; see :mod:`maxmargin.engines`. A solver gives bit-identical results on all
        engines. The fit does not close an engine object.
    warm_start : bool, default False
        Whether to start from the solution of the previous fit. Only cutting planes reuse its weights, if the
        grammar has the same size.
    random_state : int, Generator, RandomState or None, default 0
        Seed of the random number generator. Fits with the same seed are bit-identical. From a generator of
        NumPy, every fit draws another seed.
    callbacks : list of callables, optional
        Called with the record of every iteration. The fit stops if one of them returns True. See the user
        guide, "Watching a fit".
    verbose : int, default 0
        If 1, show the progress of the fit on standard error: on one line in a terminal, else every ten
        seconds.
    checkpoint : path or Checkpoint, optional
        File to which ``fit`` regularly writes its state, so that a fit that was killed can be resumed; see
        the user guide, "Checkpoints".

    Attributes
    ----------
    coef_ : array
        Weights of the rules, in the order of ``grammar_.rules``, followed by those of (attribute, tag) pairs.
    grammar_ : Grammar
        The grammar: ``symbols``, ``rules``, and the ``counts`` of the rules in the training trees.
    task_ : Task
        The task, prepared for the training data.
    objective_ : float
        Objective at the returned weights: an upper bound of the optimum.
    lower_bound_ : float
        Lower bound of the optimum.
    gap_ : float
        Relative gap between the bounds, ``(objective_ - lower_bound_) / objective_``.
    converged_ : bool
        Whether the bounds prove that ``tol`` was reached.
    stop_reason_ : str
        Why the fit stopped: "gap" (``tol`` was reached), "max_iter", "max_seconds", "callback",
        "interrupted", "stalled" (no further progress) or "rounding" (rounding errors may exceed ``tol``:
        scale the features).
    certificate_ : str
        What the bounds guarantee: "exact", "relaxed", "restricted", "lower_only" or "measured"; see the user
        guide, "What the certificate means".
    n_iter_ : int
        Number of iterations.
    history_ : list of dict
        Record of every iteration: bounds, gap, elapsed time and more.

    Examples
    --------
    >>> from maxmargin import GrammarParser
    >>> trees = ["(S (NP (DT the) (NN cat)) (VP (VBD sat)))",
    ...          "(S (NP (DT the) (NN dog)) (VP (VBD saw) (NP (DT the) (NN cat))))"]
    >>> X = [["the", "cat", "sat"], ["the", "dog", "saw", "the", "cat"]]
    >>> parser = GrammarParser(min_count=1).fit(X, trees)
    >>> parser.predict([["the", "cat", "saw", "the", "dog"]])[0]
    ('S', ('NP', ('DT', 'the'), ('NN', 'cat')), ('VP', ('VBD', 'saw'), ('NP', ('DT', 'the'), ('NN', 'dog'))))
    >>> parser.score(X, trees), parser.certificate_
    (1.0, 'exact')
    """

    _constraints = of_class(loss=one_of("span", "zero_one"))

    C: float = 1.0
    _: KW_ONLY
    loss: Literal["span", "zero_one"] = "span"
    wrong_cost: float = 1.0
    tol: Tolerance = 5e-2
    horizontal: int | None = 1
    parents: bool = True
    attributes: bool = True
    min_count: int = 2
    beam: int | None = None
    max_exact_length: int = 40
    solver: Method = "auto"
    max_iter: int | None = None
    max_seconds: float | None = None
    n_jobs: int | None = None
    engine: Workers = "threads"
    warm_start: bool = False
    random_state: Seed = 0
    callbacks: Callbacks = None
    verbose: int = 0
    checkpoint: Resumable = None

    def _task(self) -> Parsing:
        return Parsing(
            loss=self.loss,
            wrong_cost=self.wrong_cost,
            horizontal=self.horizontal,
            parents=self.parents,
            attributes=self.attributes,
            min_count=self.min_count,
            beam=self.beam,
            max_exact_length=self.max_exact_length,
        )

    @certified_fit
    def fit(
        self,
        X: Sequence[object] | None,
        y: Sequence[object],
        sample_weight: Numbers = None,
        resume_from: File | None = None,
    ) -> Self:
        """Read the grammar from the trees and train its weights.

        Parameters
        ----------
        X : list of lists of words, or None
            The sentences. If None, they are taken from the trees.
        y : list of trees
            Bracketed strings ``"(S (NP ...) ...)"``, nested tuples ``("S", ("NP", ...), ...)`` or trees of
            nltk. Every word has its own tag.
        sample_weight : array of shape (n_samples,), optional
            Per-sample multipliers of C. A sample is a sentence.
        resume_from : path, optional
            Checkpoint of a fit with the same data and parameters, from which to continue.

        Returns
        -------
        self
            The estimator itself.
        """
        trees = _trees(y)
        sentences = [words(tree) for tree in trees] if X is None else X
        check_pairs(sentences, trees)
        weight = check_example_weights(sample_weight, len(trees))
        keeping = FitCheckpoint(self, resume_from, X=sentences, y=trees, sample_weight=weight)
        task = self._task()
        dim = task.setup(sentences, trees)
        # encoded once, not at every call of the oracle
        coded = [task.sentence(x) for x in sentences]
        truths = [task.parse(tree) for tree in trees]
        start = self._previous_weights("coef_", (dim,))
        with self._workers() as engine:
            risk = TaskRisk(task, coded, truths, dim, sample_weight=weight, engine=engine)
            result = self._minimize(
                risk,
                AutoStructured() if self.solver == "auto" else self.solver,
                start=None if start is None else Start(start),
                fitted=lambda w: {"coef_": w, "task_": task},
                data={"X": X, "y": y},
                keeping=keeping,
            )
        self.coef_ = result.w
        self.task_ = task
        return self

    @property
    def grammar_(self) -> Any:
        """The grammar read from the training trees."""
        check_is_fitted(self, "task_")
        return self.task_.grammar

    def predict(self, X: Sequence[object]) -> list[Tree]:
        """Predict the best tree of each sentence.

        Parameters
        ----------
        X : list of lists of words
            Sentences.

        Returns
        -------
        list of nested tuples
            Trees. :func:`maxmargin.tasks.parsing.trees.write_tree` converts one to a bracketed string. A
            sentence that the grammar cannot parse gets a flat tree: the most frequent root label over the
            best tags of the words.
        """
        check_is_fitted(self, "task_")
        return [self.task_.inference(x, self.coef_) for x in X]

    def predict_k_best(self, X: Sequence[object], k: int) -> list[list[tuple[Tree, float]]]:
        """Predict the k best trees of each sentence, with their scores.

        Parameters
        ----------
        X : list of lists of words
            Sentences.
        k : int
            Number of trees.

        Returns
        -------
        list of lists of (tree, score)
            Best first. The list is shorter if there are fewer than k trees, and empty if the grammar has no
            tree.
        """
        check_is_fitted(self, "task_")
        integer("k", k)
        return [self.task_.k_best(x, self.coef_, k) for x in X]

    def score(self, X: Sequence[object] | None, y: Sequence[object]) -> float:
        """Return the labeled bracket F1 of the predictions, over all sentences together.

        Parameters
        ----------
        X : list of lists of words, or None
            Sentences. If None, they are taken from the trees.
        y : list of trees
            As for ``fit``.

        Returns
        -------
        float
            F1 between 0 and 1. :func:`maxmargin.tasks.parsing.trees.bracket_score` also returns precision and
            recall.
        """
        trees = _trees(y)
        sentences = [words(tree) for tree in trees] if X is None else X
        check_pairs(sentences, trees)
        return bracket_score(trees, self.predict(sentences)).f1

    def pcfg(self) -> GrammarParser:
        """Return a copy with relative frequencies: a probabilistic context-free grammar to compare with.

        The weights of the copy are the logarithms of the relative frequencies of the rules. It has no
        certificate.
        """
        check_is_fitted(self, "task_")
        other = copy.copy(self)
        other.coef_ = self.task_.grammar.log_frequencies()
        for name in [name for name in vars(self) if name.endswith("_")]:
            if name not in ("coef_", "task_") and not name.startswith("_"):
                delattr(other, name)
        return other


def _trees(y: Sequence[object]) -> list[Tree]:
    trees = []
    for i, tree in enumerate(y):
        try:
            trees.append(as_tree(tree))
        except ValueError as error:
            error.add_note(f"in tree {i}")
            raise
    return trees
