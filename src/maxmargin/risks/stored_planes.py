"""Working sets of any task's planes as plain arrays, for checkpoints.

Planes are stored as they are, not computed anew from outputs: the numbers come back bit for bit, and outputs
need not be plain data. One that is not (an object of the task's own) is left out. It is known again by its
loss and its plane, when the oracle answers with it for the next time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.checkpoints import UNKNOWN, Outputs
from maxmargin.compiled.plane_sets import PlaneSets
from maxmargin.core.flat import check_multipliers, flat_ranges, offsets
from maxmargin.core.vectors import Array


def planes_state(sets: PlaneSets, outputs: dict[int, Any], tick: int) -> dict[str, Any]:
    """Planes example by example, the truths (without numbers) included."""
    held = flat_ranges(sets.first, sets.counts)
    truths = offsets(sets.counts)
    sizes, places, keys = sets.size[held], sets.place[held], sets.key[held]
    sizes[truths], places[truths], keys[truths] = 0, -1, 0
    sparse = places >= 0
    return {
        "caps": sets.caps.copy(),
        "gaps": sets.gaps.copy(),
        "counts": sets.counts.copy(),
        "alpha": sets.alpha[held],
        "loss": sets.loss[held],
        "used": sets.used[held],
        "sizes": sizes,
        "is_dense": ~sparse,
        "values": sets.values[flat_ranges(sets.begin[held], sizes)],
        "indices": sets.indices[flat_ranges(places[sparse], sizes[sparse])],
        "outputs": Outputs(outputs[key] for key in keys.tolist() if key),
        "tick": tick,
    }


def check_planes(state: dict[str, Any], caps: Array, dim: int) -> None:
    """A ValueError unless these can be planes of examples with these caps."""
    sizes, dense, values, indices = (state[k] for k in ("sizes", "is_dense", "values", "indices"))
    check_multipliers(state["alpha"], state["counts"], caps)
    n_indices = int(sizes[~dense].sum())
    fits = (
        (len(values), len(indices)) == (int(sizes.sum()), n_indices)
        and len(state["loss"]) == len(state["used"]) == len(sizes) == len(dense)
        and len(state["gaps"]) == len(caps)
        and len(state["outputs"]) == len(sizes) - len(caps)
        and (sizes >= 0).all()
        and np.isin(sizes[dense], (0, dim)).all()
        and (not n_indices or 0 <= indices.min() <= indices.max() < dim)
    )
    if not (fits and np.isfinite(values).all() and np.isfinite(state["loss"]).all()):
        raise ValueError("planes that are not those of this task.")


def some_outputs(state: dict[str, Any], count: int) -> list[tuple[int, int, Any]]:
    """A few outputs that are known: (example, place among its planes, output)."""
    counts, outputs = state["counts"], state["outputs"]
    known = [k for k, output in enumerate(outputs) if output is not UNKNOWN]
    chosen = np.array(known[:: max(1, len(known) // count)][:count], dtype=np.int64)
    first = offsets(counts - 1)
    owners = np.searchsorted(first, chosen, side="right") - 1
    return [
        (int(i), int(k - first[i]) + 1, outputs[k]) for i, k in zip(owners, chosen, strict=True)
    ]
