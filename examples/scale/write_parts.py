"""
Write a data set in parts
=========================

Many tasks, on one machine or on a cluster, write the parts of one data set. A task that fails is repeated,
and readers see the data set when all parts are there.

.. code-block:: bash

   python write_parts.py                             # processes of joblib
   python write_parts.py --ray                       # tasks of Ray, on this machine or on a cluster
   python write_parts.py --ray --data /shared/rows   # several machines that share this folder

Without ``--ray``, only maxmargin is required. With it, run ``pip install "maxmargin[ray]"``.
"""

# sphinx_gallery_thumbnail_path = "_static/guide_cluster.svg"
import argparse
import tempfile

import numpy as np
from joblib import Parallel, delayed

from maxmargin import LinearSVC, data


def rows_of_day(day):
    """The samples of a day, as from a database or from files."""
    rng = np.random.default_rng(day)
    X = rng.normal(size=(2_000, 40)).astype(np.float32)
    yield X, np.where(X[:, 0] + rng.normal(size=len(X)) > 0, "up", "down")


# begin: task
def write_day(folder, day):
    """Write the part of a day. If the task is repeated, it replaces the part."""
    return data.write_part(folder, rows_of_day(day), f"day-{day:03d}")


# end: task


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ray", action="store_true", help="with tasks of Ray")
    parser.add_argument("--data", help="folder of the data set, seen by all machines")
    options = parser.parse_args()
    folder, days = options.data or tempfile.mkdtemp(), range(8)

    if options.ray:
        import ray

        # begin: ray
        task = ray.remote(write_day)
        names = ray.get([task.remote(folder, day) for day in days])
        # end: ray
    else:
        names = Parallel(n_jobs=2)(delayed(write_day)(folder, day) for day in days)

    # begin: commit
    rows = data.commit(folder, names, overwrite=True)
    svc = LinearSVC(C=1e-3, loss="hinge").fit(rows)
    # end: commit
    rows.verify()
    print(rows)
    print(f"{svc.lower_bound_:.4f} <= optimum <= {svc.objective_:.4f}")
    assert svc.converged_


if __name__ == "__main__":  # processes import this file
    main()
