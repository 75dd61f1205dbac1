"""
Learning the costs of a cell tracker
====================================

`motile <https://github.com/funkelab/motile>`_ tracks cells by solving an integer program whose costs are
weighted sums of attributes. This example learns the weights, with a certificate. It also supports what
motile's own ``fit_weights`` does not offer: fixed weights, nonnegative weights, and training on several
graphs.

``pip install maxmargin motile``
"""

import sys

import numpy as np
import scipy.sparse as sp
from scipy.optimize import Bounds, LinearConstraint, milp

from maxmargin import StructuredSVM
from maxmargin.tasks import IntegerProgram, WeightedSolution

try:
    import ilpy
    import motile
    import networkx as nx
    from motile.constraints import MaxChildren, MaxParents
    from motile.costs import EdgeSelectedCost, NodeAppearCost, NodeSelectedCost
    from motile.variables import EdgeSelected, NodeSelected
except ImportError:
    print("This example needs motile: pip install motile")
    sys.exit(77)

# %%
# A motile solver contains everything an integer program needs: the feature matrix and the constraints.


def program(solver):
    """A motile solver as an input of IntegerProgram."""
    A = sp.lil_array((len(solver.constraints), solver.num_variables))
    lower, upper = np.full(A.shape[0], -np.inf), np.full(A.shape[0], np.inf)
    for row, constraint in enumerate(solver.constraints):
        for variable, coefficient in constraint.get_coefficients().items():
            A[row, variable] = coefficient
        if constraint.get_relation() != ilpy.Relation.GreaterEqual:
            upper[row] = constraint.get_value()
        if constraint.get_relation() != ilpy.Relation.LessEqual:
            lower[row] = constraint.get_value()
    features = solver.features.to_ndarray().astype(float)
    return {"features": features, "constraints": LinearConstraint(sp.csr_array(A), lower, upper)}


# %%
# A label is the attribute ``gt`` of nodes and edges: 1, 0, or missing. Missing labels and the helper
# variables (does a track begin here?) must be completed to a feasible solution; here, with as few
# additional objects as possible. The completed variables have weight 0 in the loss.


def labeled_solution(solver, x, attribute="gt"):
    """The labels on a motile solver's graph, completed to a feasible solution."""
    weights = np.zeros(solver.num_variables)
    values = np.zeros(solver.num_variables)
    graph = solver.graph
    for kind, objects in ((NodeSelected, graph.nodes), (EdgeSelected, graph.edges)):
        for key, variable in solver.get_variables(kind).items():
            label = objects[key].get(attribute)
            if label is not None:
                weights[variable], values[variable] = 1.0, float(label)
    box = Bounds(np.where(weights > 0, values, 0.0), np.where(weights > 0, values, 1.0))
    found = milp(1.0 - weights, constraints=x["constraints"], bounds=box, integrality=1)
    if found.x is None:
        raise ValueError("the labels contradict the constraints")
    return WeightedSolution(np.round(found.x), weights)


# %%
# The graph from motile's documentation, with three frames and a few labels:


def tracker():
    """Nodes with a frame and a score, edges with a score."""
    graph = nx.DiGraph()
    for node, (t, score, gt) in enumerate(
        [(0, 0.8, 1), (0, 0.1, None), (1, 0.3, 1), (1, 0.4, None), (2, 0.6, 1), (2, 0.3, 0)]
        + [(2, 0.7, None)]
    ):
        graph.add_node(node, t=t, score=score, gt=gt)
    for a, b, score, gt in [
        (0, 2, 0.9, 1),
        (1, 3, 0.9, None),
        (0, 3, 0.5, None),
        (1, 2, 0.5, None),
        (2, 4, 0.7, 1),
        (3, 5, 0.7, None),
        (2, 5, 0.3, 0),
        (3, 4, 0.3, None),
        (3, 6, 0.8, None),
    ]:
        graph.add_edge(a, b, score=score, gt=gt)
    solver = motile.Solver(motile.TrackGraph(graph))
    solver.add_constraint(MaxParents(1))
    solver.add_constraint(MaxChildren(1))
    solver.add_cost(NodeSelectedCost(weight=1, attribute="score"))
    solver.add_cost(EdgeSelectedCost(weight=-1, attribute="score", constant=0.5))
    solver.add_cost(NodeAppearCost(constant=1))
    return solver


def main():
    """Learn the weights and track with them."""
    solver = tracker()
    x = program(solver)
    y = labeled_solution(solver, x)
    # motile orders weights by cost: (cost, weight), (cost, constant). The constant of an edge is fixed, and
    # the cost of starting a track must not be negative.
    names = ["node", "node constant", "edge", "edge constant", "appear", "appear constant"]
    svm = StructuredSVM(
        IntegerProgram(feature_names=names),
        C=1 / 0.01,
        fixed={"edge constant": 0.5},
        nonnegative=["appear constant"],
        tol=1e-6,
    ).fit([x], [y])
    solver.weights.from_ndarray(svm.coef_)
    solver.solve()
    print(dict(zip(names, svm.coef_.round(3).tolist(), strict=True)))
    print(f"{svm.lower_bound_:.6f} <= optimum <= {svm.objective_:.6f}")
    selected = solver.get_selected_subgraph().edges
    print("selected:", sorted(selected))
    labels = {edge: data["gt"] for edge, data in solver.graph.edges.items()}
    right = [(edge in selected) == bool(gt) for edge, gt in labels.items() if gt is not None]
    assert svm.converged_
    assert all(right)
    assert svm.coef_[3] == 0.5
    assert svm.coef_[5] >= 0.0
    print(
        f"{len(right)} labeled edges tracked as labeled, one weight fixed and one nonnegative, certified gap "
        f"{svm.gap_:.0e}"
    )


if __name__ == "__main__":
    main()
