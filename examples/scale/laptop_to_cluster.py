"""
From laptop to cluster
======================

Run the same fit in one thread, in threads, in processes, from a dataset on disk, and on a Ray cluster. Only
``engine`` changes, and the results are bit-identical.

.. code-block:: bash

   python laptop_to_cluster.py                             # this machine, without Ray
   python laptop_to_cluster.py --ray                       # the cluster of 'ray start', or a temporary one
   python laptop_to_cluster.py --ray --data /shared/rows   # several machines that share this folder

Without ``--ray``, only maxmargin is required. With it, run ``pip install "maxmargin[ray]"``.
"""

# sphinx_gallery_thumbnail_path = "_static/guide_cluster.svg"
import argparse
import tempfile

import numpy as np

import maxmargin
from maxmargin import LinearSVC
from maxmargin.solvers import CuttingPlane


def batches():
    """Yield samples one block at a time, as from a database or from files."""
    rng = np.random.default_rng(0)
    w = rng.normal(size=40)
    for _ in range(20):
        X = rng.normal(size=(2_000, 40)).astype(np.float32)
        yield X, np.where(X @ w + rng.normal(size=len(X)) > 0, "yes", "no")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ray", action="store_true", help="also on a Ray cluster")
    parser.add_argument("--data", help="folder for the rows, seen by all machines")
    options = parser.parse_args()

    # begin: one machine
    data = maxmargin.data.write(options.data or tempfile.mkdtemp(), batches(), overwrite=True)
    X, y, _ = data.load()

    svc = LinearSVC(C=0.01, solver=CuttingPlane(), loss="hinge")
    fits = {
        "one thread": svc.fit(X, y).coef_,
        "threads": svc.set_params(n_jobs=2).fit(X, y).coef_,
        "processes": svc.set_params(engine="processes").fit(X, y).coef_,
        "rows on disk": svc.set_params(engine="threads").fit(data).coef_,
    }
    # end: one machine
    if options.ray:
        # begin: cluster
        svc = LinearSVC(C=0.01, solver=CuttingPlane(), engine="ray", loss="hinge")
        fits["Ray, rows in memory"] = svc.fit(X, y).coef_
        fits["Ray, rows on disk"] = svc.fit(data).coef_
        # end: cluster

    for name, coef in fits.items():
        same = coef.tobytes() == fits["one thread"].tobytes()
        print(f"{name:20} {'bit-identical' if same else 'DIFFERENT'}")
        assert same
    print(f"{svc.lower_bound_:.4f} <= optimum <= {svc.objective_:.4f}, {svc.n_iter_} iterations")


if __name__ == "__main__":  # processes import this file
    main()
