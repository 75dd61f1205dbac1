"""MultiLabelSVC: several labels per sample, with dependencies between labels.

A sample is a graph with one node per label, and the labels of its nodes are 0 and 1 (see
:func:`maxmargin.tasks.multilabel_graphs`). All samples have the same graph, and the scores of pairs of labels
do not depend on the sample. So without cycles, max-marginals are computed for all samples at once.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from maxmargin.core.result import Start
from maxmargin.core.vectors import Array, IntArray
from maxmargin.estimators.base import CertifiedEstimator
from maxmargin.estimators.checkpoint import FitCheckpoint
from maxmargin.estimators.documentation import documented
from maxmargin.estimators.example_checks import check_example_weights
from maxmargin.estimators.outcome import certified_fit
from maxmargin.estimators.parameters import check_parameters
from maxmargin.estimators.validation import finite_scores
from maxmargin.risks import TaskRisk
from maxmargin.solvers import AutoStructured
from maxmargin.tasks.graphs import inference as graph_inference
from maxmargin.tasks.graphs.builders import chow_liu_tree, multilabel_graphs
from maxmargin.tasks.graphs.inputs import Graph
from maxmargin.tasks.graphs.labeling import GraphLabeling
from maxmargin.tasks.graphs.programs import Scores

#: Nodes have one weight vector for label 0 and one for label 1. With features of this size, the norm of both
#: is that of their difference, so C means the same as in LinearSVC.
SCALE = np.sqrt(0.5)


@documented
class MultiLabelSVC(ClassifierMixin, CertifiedEstimator):
    """Multilabel classification with dependencies between labels, trained with a certificate.

    The score of a set of labels is the sum of a linear score of each label and of a learned score for each
    pair of labels that ``dependencies`` connects. The loss is the number of wrong labels (Hamming loss).
    Without dependencies, this is one :class:`LinearSVC` per label with the same C.

    Parameters
    ----------
    {C}
        It multiplies a sum over samples and labels.
    dependencies : {"tree", "full", "none"} or array of shape (n_pairs, 2), default "tree"
        Which pairs of labels have a score. "tree" is the maximum-mutual-information (Chow–Liu) tree of the
        training labels: inference is fast and exact. "full" connects all pairs: inference is still exact, but
        may be slow with more than about 20 labels. An array lists the pairs by the columns of ``y``.
    {tol}
    {fit_intercept}
    {solver}
        "auto" is :class:`maxmargin.solvers.DualCoordinate`.
    {limits}
    {n_jobs}
    {engine}
    {warm_start}
        Only cutting planes reuse its weights.
    {random_state}
    {callbacks}
    {verbose}
    {checkpoint}

    Attributes
    ----------
    classes_ : array of shape (n_labels,)
        The labels: the names of the columns of ``y`` if it is a data frame, else 0 .. n_labels - 1.
    coef_ : array of shape (n_labels, n_features)
        Weights of the features for each label.
    intercept_ : array of shape (n_labels,)
        Intercept of each label.
    dependencies_ : array of shape (n_pairs, 2)
        The pairs of labels that have a score, by their columns.
    pair_coef_ : array of shape (n_pairs, 2, 2)
        Scores of the pairs: ``pair_coef_[p, a, b]`` if the first label of pair p is a (0 or 1) and the second
        is b.
    weights_ : array
        All weights of the task as one flat array.
    {task_}
    {n_features_in_}
    {feature_names_in_}
    {certificate}

    See Also
    --------
    GraphLabeler : A label for every node of a graph.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from maxmargin import MultiLabelSVC
    >>> X, Y = make_multilabel_classification(n_samples=200, n_classes=4, random_state=0)
    >>> svc = MultiLabelSVC(C=0.01).fit(X[:150], Y[:150])
    >>> svc.predict(X[150:]).shape
    (50, 4)
    >>> bool(np.mean(svc.predict(X[150:]) == Y[150:]) > 0.75)
    True
    >>> svc.certificate_, svc.converged_
    ('exact', True)
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        dependencies: Any = "tree",
        tol: Any = 5e-2,
        fit_intercept: bool = True,
        solver: Any = "auto",
        max_iter: int | None = None,
        max_seconds: float | None = None,
        n_jobs: int | None = None,
        engine: Any = "threads",
        warm_start: bool = False,
        random_state: Any = 0,
        callbacks: Any = None,
        verbose: int = 0,
        checkpoint: Any = None,
    ) -> None:
        self.C = C
        self.dependencies = dependencies
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.n_jobs = n_jobs
        self.engine = engine
        self.warm_start = warm_start
        self.random_state = random_state
        self.callbacks = callbacks
        self.verbose = verbose
        self.checkpoint = checkpoint

    @certified_fit
    @documented
    def fit(self, X: Any, y: Any, sample_weight: Any = None, resume_from: Any = None) -> Self:
        """Fit the classifier.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            The samples.
        y : array, sparse matrix or data frame of shape (n_samples, n_labels)
            Indicators: ``y[i, l]`` is 1 if sample i has label l, else 0.
        {sample_weight}
        {resume_from}

        Returns
        -------
        MultiLabelSVC
            The fitted classifier.
        """
        check_parameters(self)
        rows = validate_data(self, X, accept_sparse="csr", dtype=np.float64)
        classes, table = _indicators(y, rows.shape[0])
        weight = check_example_weights(sample_weight, len(table))
        pairs = _pairs(self.dependencies, table)
        keeping = FitCheckpoint(self, resume_from, X=rows, y=table, sample_weight=weight)
        graphs = multilabel_graphs(_nodes(rows, self.fit_intercept), pairs, table.shape[1])
        task = GraphLabeling(2)
        task.setup(graphs, list(table))
        previous = getattr(self, "weights_", None) if self.warm_start else None
        if previous is not None and previous.shape != (task.dim,):
            previous = None
        fitted = {"classes_": classes, "dependencies_": pairs, "task_": task}
        with self._workers() as engine:
            risk = TaskRisk(
                task, graphs, list(table), task.dim, sample_weight=weight, engine=engine
            )
            result = self._minimize(
                risk,
                AutoStructured() if self.solver == "auto" else self.solver,
                start=None if previous is None else Start(previous),
                fitted=lambda w: {**fitted, "weights_": w.copy()},
                data={"X": X, "y": y},
                keeping=keeping,
            )
        for name, value in fitted.items():
            setattr(self, name, value)
        self.weights_ = result.w
        return self

    def _node_weights(self) -> Array:
        """Weights by label, feature (the intercept's is the last) and value of the label."""
        check_is_fitted(self, "weights_")
        split = self.task_.n_node_weights
        return self.weights_[:split].reshape(len(self.classes_), -1, 2)

    @property
    def coef_(self) -> Array:
        """Weights of the features for each label."""
        weights = self._node_weights()[:, : self.n_features_in_]
        return SCALE * (weights[:, :, 1] - weights[:, :, 0])

    @property
    def intercept_(self) -> Array:
        """Intercept of each label."""
        weights = self._node_weights()[:, self.n_features_in_ :]
        return SCALE * (weights[:, :, 1] - weights[:, :, 0]).sum(axis=1)

    @property
    def pair_coef_(self) -> Array:
        """Scores of pairs of labels."""
        check_is_fitted(self, "weights_")
        task = self.task_
        return self.weights_[task.n_node_weights :].reshape(-1, task.n_pairs)[:, task.pair]

    def decision_function(self, X: Any) -> Array:
        """How much better the best set of labels with each label is than the best set without it.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        array of shape (n_samples, n_labels)
            Differences of scores (of max-marginals). A label is predicted where the difference is positive.
        """
        nodes = self._scores(X)
        graph = self._graph()
        if graph.is_forest:
            best = _max_marginals(nodes, graph, self.pair_coef_)
        else:
            best = np.stack([self._clamped(graph, scores) for scores in nodes])
        return best[:, :, 1] - best[:, :, 0]

    def predict(self, X: Any) -> IntArray:
        """Predict the best set of labels of each sample.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        array of shape (n_samples, n_labels)
            Indicators: 1 for labels of the set, 0 for others.
        """
        nodes = self._scores(X)
        graph = self._graph()
        if graph.is_forest:
            best = _max_marginals(nodes, graph, self.pair_coef_)
            return (best[:, :, 1] > best[:, :, 0]).astype(np.int64)
        return np.stack([self._best(graph, scores).y for scores in nodes])

    def _scores(self, X: Any) -> Array:
        """Scores of both values of each label, of shape (n_samples, n_labels, 2)."""
        check_is_fitted(self, "weights_")
        rows = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        weights = self._node_weights()
        rows = _nodes(rows, weights.shape[1] > self.n_features_in_)
        flat = weights.transpose(1, 0, 2).reshape(weights.shape[1], -1)
        scores = finite_scores(np.asarray(rows @ flat))
        return scores.reshape(rows.shape[0], len(self.classes_), 2)

    def _graph(self) -> Graph:
        return Graph(np.zeros((len(self.classes_), 1)), self.dependencies_)

    def _best(self, graph: Graph, nodes: Array) -> Any:
        nodes = np.ascontiguousarray(nodes)
        return graph_inference.exact(graph, Scores(nodes, graph.lo, graph.hi, self.pair_coef_))

    def _clamped(self, graph: Graph, nodes: Array) -> Array:
        """Score of the best set with and without each label, by one inference for each."""
        first = self._best(graph, nodes)
        out = np.full(nodes.shape, first.value)
        lowest = 1.0 + 2.0 * (np.abs(nodes).sum() + np.abs(self.pair_coef_).sum())
        for label, value in enumerate(first.y):
            other = nodes.copy()
            other[label, value] -= lowest
            out[label, 1 - value] = self._best(graph, other).value
        return out

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.classifier_tags.multi_class = False
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        tags.input_tags.sparse = True
        return tags


def _nodes(rows: Any, intercept: bool) -> Any:
    """The features of a sample's nodes."""
    if not intercept:
        return SCALE * rows
    ones = np.ones((rows.shape[0], 1))
    wide = sp.hstack([rows, ones], format="csr") if sp.issparse(rows) else np.hstack([rows, ones])
    return SCALE * wide


def _indicators(y: Any, n: int) -> tuple[npt.NDArray[Any], IntArray]:
    """The labels and the matrix of indicators."""
    if y is None:
        raise ValueError("MultiLabelSVC requires y to be passed, but the target y is None.")
    names = getattr(y, "columns", None)
    table = check_array(y, accept_sparse="csr", ensure_2d=False, dtype=None, input_name="y")
    if table.ndim != 2:
        raise ValueError(
            "y must be a matrix of indicators with one column per label, got an array of shape "
            f"{table.shape}. sklearn.preprocessing.MultiLabelBinarizer makes one from lists of labels. "
            "For one label per sample, use maxmargin.LinearSVC."
        )
    table = table.toarray() if sp.issparse(table) else table
    if table.shape[0] != n:
        raise ValueError(f"X has {n} samples, but y has {table.shape[0]} rows.")
    if not np.isin(table, (0, 1)).all():
        raise ValueError("y must be a matrix of zeros and ones with one column per label.")
    classes = np.arange(table.shape[1]) if names is None else np.asarray(names)
    return classes, np.ascontiguousarray(table, dtype=np.int64)


def _pairs(dependencies: Any, table: IntArray) -> IntArray:
    """The pairs of labels that have a score: each once, the lower column first."""
    n_labels = table.shape[1]
    if isinstance(dependencies, str):
        if dependencies == "tree":
            return chow_liu_tree(table) if n_labels > 1 else np.empty((0, 2), dtype=np.int64)
        if dependencies == "full":
            return np.stack(np.triu_indices(n_labels, 1), axis=1).astype(np.int64)
        if dependencies == "none":
            return np.empty((0, 2), dtype=np.int64)
        raise ValueError(
            f"dependencies must be 'tree', 'full', 'none' or an array of pairs of labels, got "
            f"{dependencies!r}."
        )
    pairs = np.asarray(dependencies)
    if pairs.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise ValueError("dependencies must be an array of integers with two columns.")
    if pairs.min() < 0 or pairs.max() >= n_labels or (pairs[:, 0] == pairs[:, 1]).any():
        raise ValueError(f"dependencies must be pairs of different labels 0 .. {n_labels - 1}.")
    return np.unique(np.sort(pairs, axis=1), axis=0).astype(np.int64)


def _max_marginals(nodes: Array, graph: Graph, pairs: Array) -> Array:
    """Score of the best set of labels for each value of each label, on a graph without cycles.

    ``nodes`` has the shape (n_samples, n_labels, 2), and ``pairs[e]`` is the same for all samples.
    """
    steps = []  # from parents to children: child, parent, scores [value of parent, value of child]
    seen = np.zeros(graph.n_nodes, dtype=bool)
    around: list[list[tuple[int, Array]]] = [[] for _ in range(graph.n_nodes)]
    for (u, v), table in zip(graph.edges.tolist(), pairs, strict=True):
        around[u].append((v, table))
        around[v].append((u, table.T))
    for root in range(graph.n_nodes):
        waiting = [] if seen[root] else [root]
        seen[root] = True
        while waiting:
            parent = waiting.pop()
            for child, table in around[parent]:
                if not seen[child]:
                    seen[child] = True
                    steps.append((child, parent, table))
                    waiting.append(child)
    total = nodes.copy()
    upward: dict[int, Array] = {}
    for child, parent, table in reversed(steps):
        upward[child] = (total[:, child, None, :] + table).max(axis=2)
        total[:, parent] += upward[child]
    for child, parent, table in steps:
        rest = total[:, parent] - upward[child]
        total[:, child] += (rest[:, :, None] + table).max(axis=1)
    return total
