"""GraphLabeler: a label for every node of a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from maxmargin.core.result import Start
from maxmargin.core.vectors import Array, IntArray
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
)
from maxmargin.estimators.example_checks import check_example_weights, check_pairs
from maxmargin.estimators.outcome import certified_fit
from maxmargin.estimators.prior import GaussianPrior
from maxmargin.estimators.structured.sequences import cost_matrix
from maxmargin.estimators.weights import Weighing, weigh
from maxmargin.risks import TaskRisk
from maxmargin.solvers import AutoStructured, CuttingPlane
from maxmargin.tasks.graphs.inputs import Graph, as_graph
from maxmargin.tasks.graphs.labeling import GraphLabeling
from maxmargin.tasks.graphs.programs import Relaxed


@dataclass(eq=False, repr=False)
class GraphLabeler(CertifiedEstimator):
    """Labeling of the nodes of graphs and grids, trained with a large margin and a certificate.

    The score of a labeling is the sum of the scores of each node's label and of the pairs of labels along
    edges, both linear in features. The loss is the number of wrong nodes (Hamming loss), or their ``cost``.

    Parameters
    ----------
    C : float, default 1.0
        Weight of the loss relative to the regularization. The larger, the more closely the model fits the
        training data. It multiplies a sum over graphs.
    edges : {"full", "symmetric", "potts", "attractive"}, default "full"
        Which pairs of labels share a weight. "full": every ordered pair has its own weight, so edges are
        directed from their first node to their second. "symmetric": the direction is ignored. "potts": only
        whether the two labels are equal matters. "attractive": like "potts", with weights that must not be
        negative. Then inference with two labels is a minimum cut; edge features must not be negative either,
        and the solver "auto" is :class:`maxmargin.solvers.CuttingPlane`.
    inference : {"auto", "messages", "lp"}, default "auto"
        How the best labeling is found. "auto" is exact on every graph: dynamic programming without cycles, a
        minimum cut for two labels whose edges prefer equal labels, otherwise message passing and, where its
        bound is not tight, an integer program. "messages" is message passing alone: it is fast on large
        graphs and the bounds stay valid, but the gap may remain large. "lp" trains with the linear
        relaxation: ``certificate_`` is "relaxed", and predictions are rounded.
    tol : float or stopping rule, default 0.05
        Relative gap ``(objective_ - lower_bound_) / objective_`` at which the fit stops. For another
        criterion, pass a stopping rule such as :class:`maxmargin.solvers.AbsoluteGap`. The accuracy usually
        stops improving well before the default is reached.
    cost : dict or array of shape (n_labels, n_labels), optional
        Dict: the cost of missing each label, 1 for labels that are not in it. Array: ``cost[i, j]`` is the
        cost of predicting label j when the true label is i, in the order of ``classes_``.
    prior : GaussianPrior, optional
        Center and spread of the weights, in place of the term ``1/2 |w|^2``; see the user guide, "Priors". It
        applies to the flat array ``weights_``. If features and labels stay the same,
        ``GaussianPrior(mean=last.weights_)`` updates an earlier labeler.
    solver : "auto" or solver object, default "auto"
        The optimization method; see :mod:`maxmargin.solvers`. "auto" is
        :class:`maxmargin.solvers.DualCoordinate`, or :class:`maxmargin.solvers.CuttingPlane` if edges must be
        attractive or a prior has more than a center.
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
        Whether to start from the solution of the previous fit. Only cutting planes reuse its weights.
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
    classes_ : array
        The class labels, sorted.
    coef_ : array of shape (n_labels, n_features)
        Weights of the node features. This is a view of ``weights_``.
    pair_coef_ : array of shape (n_edge_features, n_labels, n_labels)
        Weights of pairs of labels, [edge feature, label of the first node, label of the second].
    weights_ : array
        All weights as one flat array.
    task_ : Task
        The task, prepared for the training data.
    n_features_in_ : int
        Number of features.
    n_edge_features_in_ : int
        Number of edge features.
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
    Nodes of a ring, whose label is the sign of their neighborhood:

    >>> import numpy as np
    >>> from maxmargin import GraphLabeler
    >>> from maxmargin.tasks import Graph
    >>> ring = [[i, (i + 1) % 6] for i in range(6)]
    >>> x = Graph(np.array([[1.0], [-0.2], [1.0], [-1.0], [0.2], [-1.0]]), ring)
    >>> y = np.array(["up", "up", "up", "down", "down", "down"])
    >>> labeler = GraphLabeler(C=10.0, edges="potts").fit([x], [y])
    >>> labeler.predict([x])[0].tolist()
    ['up', 'up', 'up', 'down', 'down', 'down']
    >>> labeler.certificate_, labeler.gap_ <= 5e-2
    ('exact', True)
    """

    task_: GraphLabeling = field(init=False)
    classes_: npt.NDArray[Any] = field(init=False)
    n_edge_features_in_: int = field(init=False)

    C: float = 1.0
    _: KW_ONLY
    edges: str = "full"
    inference: str = "auto"
    tol: Tolerance = 5e-2
    cost: Mapping[Any, float] | npt.ArrayLike | None = None
    prior: GaussianPrior | None = None
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

    @certified_fit
    def fit(
        self,
        X: Sequence[object],
        y: Sequence[object],
        sample_weight: Numbers = None,
        resume_from: File | None = None,
    ) -> Self:
        """Fit the labeler.

        Parameters
        ----------
        X : sequence of graphs
            Each is a :class:`maxmargin.tasks.Graph` or a tuple (features, edges[, edge_features]).
            :func:`maxmargin.tasks.grid_graph` makes a graph from an image.
        y : sequence of arrays
            The labels of the nodes of each graph. An array of any shape is read in C order.
        sample_weight : array of shape (n_samples,), optional
            Per-sample multipliers of C. A sample is a graph.
        resume_from : path, optional
            Checkpoint of a fit with the same data and parameters, from which to continue.

        Returns
        -------
        self
            The estimator itself.
        """
        check_pairs(X, y)
        weight = check_example_weights(sample_weight, len(y))
        graphs = _graphs(X)
        keeping = FitCheckpoint(self, resume_from, X=graphs, y=y, sample_weight=weight)
        classes, codes = _codes(graphs, y)
        task = GraphLabeling(
            len(classes),
            edges=self.edges,
            inference=self.inference,
            cost=cost_matrix(self.cost, classes.tolist()),
        )
        task.setup(graphs, codes)
        asked = SimpleNamespace(prior=self.prior, nonnegative=_signed(task, graphs))
        weights = weigh(asked, task.dim)
        previous = self._previous_weights("weights_", (task.dim,))
        fitted = {
            "classes_": classes,
            "n_features_in_": task.n_features,
            "n_edge_features_in_": task.n_edge_features,
            "task_": task,
        }
        with self._workers() as engine:
            risk = TaskRisk(task, graphs, codes, task.dim, sample_weight=weight, engine=engine)
            result = self._minimize(
                weights.risk(risk),
                self._solver(weights),
                regularizer=weights.norm,
                start=None if previous is None else Start(weights.learned(previous)),
                fitted=lambda w: {**fitted, "weights_": weights.whole(w).copy()},
                data={"X": X, "y": y},
                keeping=keeping,
            )
        self.__dict__.update(fitted)
        self.weights_ = weights.whole(result.w)
        return self

    def _solver(self, weights: Weighing) -> Any:
        if self.solver != "auto":
            return self.solver
        plain = not len(weights.norm.nonnegative) and (weights.map is None or weights.center_only)
        return AutoStructured() if plain else CuttingPlane()

    @property
    def coef_(self) -> Array:
        """Weights of the node features, one row per label."""
        check_is_fitted(self, "weights_")
        split = self.task_.n_node_weights
        return self.weights_[:split].reshape(-1, len(self.classes_)).T

    @property
    def pair_coef_(self) -> Array:
        """Weights of pairs of labels, [edge feature, label of the first node, label of the second]."""
        check_is_fitted(self, "weights_")
        task = self.task_
        kinds = np.zeros((self.n_edge_features_in_, task.n_pairs + 1))
        kinds[:, :-1] = self.weights_[task.n_node_weights :].reshape(-1, task.n_pairs)
        return kinds[:, task.pair]

    def predict(self, X: Sequence[object]) -> list[npt.NDArray[Any]]:
        """Predict the best labeling of each graph.

        Parameters
        ----------
        X : sequence of graphs
            As for ``fit``.

        Returns
        -------
        list of arrays
            One label per node.
        """
        check_is_fitted(self, "weights_")
        out = []
        for i, graph in enumerate(_graphs(X)):
            self.task_.check_graph(graph, f"graph {i}")
            found = self.task_.inference(graph, self.weights_)
            codes = found.nodes.argmax(axis=1) if isinstance(found, Relaxed) else found
            out.append(self.classes_[codes])
        return out

    def score(self, X: Sequence[object], y: Sequence[Any]) -> float:
        """Return the fraction of nodes with the right label.

        Parameters
        ----------
        X, y : as for ``fit``
            Graphs and the true labels of their nodes.

        Returns
        -------
        float
            Node accuracy.
        """
        check_pairs(X, y)
        pairs = zip(self.predict(X), y, strict=True)
        return float(np.mean(np.concatenate([p == np.ravel(truth) for p, truth in pairs])))


def _signed(task: GraphLabeling, graphs: Sequence[Graph]) -> IntArray:
    """Indices of the weights that must not be negative."""
    if task.edges != "attractive":
        return np.empty(0, dtype=np.int64)
    for i, graph in enumerate(graphs):
        sparse = sp.issparse(graph.edge_features)
        entries = np.asarray(graph.edge_features.data if sparse else graph.edge_features)
        if entries.min(initial=0.0) < 0.0:
            raise ValueError(
                f"graph {i} has negative edge features, which edges='attractive' does not allow. Use "
                "edges='potts', or features that are not negative."
            )
    return np.arange(task.n_node_weights, task.dim)


def _graphs(X: Sequence[object]) -> list[Graph]:
    out = []
    for i, x in enumerate(X):
        try:
            out.append(as_graph(x))
        except Exception as error:
            error.add_note(f"raised for graph {i}")
            raise
    return out


def _codes(
    graphs: Sequence[Graph], y: Sequence[Any]
) -> tuple[npt.NDArray[Any], list[npt.NDArray[np.int64]]]:
    """The distinct labels, and the codes of the labels of each graph's nodes."""
    parts = [np.ravel(labels) for labels in y]
    for i, (graph, labels) in enumerate(zip(graphs, parts, strict=True)):
        if len(labels) != graph.n_nodes:
            raise ValueError(f"graph {i} has {graph.n_nodes} nodes but {len(labels)} labels.")
    flat = np.concatenate(parts)
    if flat.size == 0:
        raise ValueError("all graphs are empty: there is nothing to learn from.")
    classes, codes = np.unique(flat, return_inverse=True)
    ends = np.cumsum([len(labels) for labels in parts])[:-1]
    return classes, np.split(codes.astype(np.int64), ends)
