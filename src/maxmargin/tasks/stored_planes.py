"""Working sets of any task's planes as plain arrays, for checkpoints.

Planes are stored, not recomputed from outputs. So the restored numbers are bit-identical, and outputs
need not be plain data. An output that is not plain data (a user-defined object) is omitted. It is recognized
by its loss and its plane when the oracle returns it the next time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.checkpoints import UNKNOWN, Outputs
from maxmargin.compiled.plane_sets import PlaneSets
from maxmargin.core.ragged import MOST_PLANES, flat_ranges, offsets
from maxmargin.core.stored_values import count, entries, flags, floats, integers
from maxmargin.core.vectors import Array


def planes_state(sets: PlaneSets, outputs: dict[int, Any], tick: int) -> dict[str, Any]:
    """Planes example by example, including the true outputs' planes (without entries)."""
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
    """Raise ValueError unless these can be planes of examples with these caps."""
    names = ("sizes", "is_dense", "values", "indices", "alpha", "counts", "loss", "used", "gaps")
    sizes, dense, values, indices, alpha, counts, loss, used, gaps = entries(state, *names)
    outputs, tick = entries(state, "outputs", "tick")
    counts = integers(counts, "the numbers of planes", caps.shape, 1, MOST_PLANES)
    floats(alpha, "the multipliers", (int(counts.sum()),))
    sizes = integers(sizes, "the sizes of planes", alpha.shape, below=2**40)
    dense = flags(dense, "the forms of planes", alpha.shape)
    floats(values, "the entries of planes", (int(sizes.sum()),))
    integers(indices, "the indices of planes", (int(sizes[~dense].sum()),), below=dim)
    floats(loss, "the losses", alpha.shape)
    integers(used, "the ages of planes", alpha.shape, -1)
    floats(gaps, "the gaps", caps.shape, finite=False)
    count(tick, "the number of sweeps")
    # true outputs are not listed, and their planes have no entries
    fits = type(outputs) is list and len(outputs) == len(sizes) - len(caps)
    if not fits or not np.isin(sizes[dense], (0, dim)).all() or sizes[offsets(counts)].any():
        raise ValueError("the planes do not match this task.")


def some_outputs(state: dict[str, Any], count: int) -> list[tuple[int, int, Any]]:
    """A few known outputs: (example, position among its planes, output)."""
    counts, outputs = state["counts"], state["outputs"]
    known = [k for k, output in enumerate(outputs) if output is not UNKNOWN]
    chosen = np.array(known[:: max(1, len(known) // count)][:count], dtype=np.int64)
    first = offsets(counts - 1)
    owners = np.searchsorted(first, chosen, side="right") - 1
    return [
        (int(i), int(k - first[i]) + 1, outputs[k]) for i, k in zip(owners, chosen, strict=True)
    ]
