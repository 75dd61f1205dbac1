"""Maximum flow and minimum cut in float64, by growing two search trees.

This is the method of Boykov and Kolmogorov (2004, "An experimental comparison of min-cut/max-flow algorithms
for energy minimization in vision"), which works well on graphs of pixels. One tree grows from the source and
one from the sink, along arcs with residual capacity. Where they meet, the path is augmented. Nodes whose arc
to the parent is saturated become orphans, which find another parent or leave the tree. When no tree can grow,
the source's tree is one side of a cut whose arcs are all saturated: its capacity equals the flow, which
proves optimality. An augmentation reduces the bottleneck arc to exactly zero, so nothing depends on a
tolerance.

Node i has the arcs ``first[i] .. first[i+1]-1``; ``sister[a]`` is the reverse of arc a; ``left`` is the
residual capacity. ``terminal[i] > 0`` is the residual capacity from the source to i, ``< 0`` from i to the
sink.
"""

from __future__ import annotations

import numpy as np

from maxmargin.compiled.jit import entry, inlined

# A parent is the arc to it, or one of these.
_NONE, _TERMINAL, _ORPHAN = -1, -2, -3
_FAR = 1 << 60


@entry
def flow_arcs(lo, hi, forward, first, head, sister, left):
    """Arcs of edges: ``lo[e] -> hi[e]`` with capacity ``forward[e]``, and its reverse with capacity 0."""
    n, m = len(first) - 1, len(lo)
    first[:] = 0
    for e in range(m):
        first[lo[e] + 1] += 1
        first[hi[e] + 1] += 1
    for i in range(n):
        first[i + 1] += first[i]
    place = first[:-1].copy()
    for e in range(m):
        a, b = place[lo[e]], place[hi[e]]
        place[lo[e]] += 1
        place[hi[e]] += 1
        head[a], head[b] = hi[e], lo[e]
        sister[a], sister[b] = b, a
        left[a], left[b] = forward[e], 0.0


# -- queues of nodes: linked lists; follower[i] is -1 outside the list, i itself at its end ---------


@inlined
def _append(i, follower, ends):
    follower[i] = i
    if ends[1] >= 0:
        follower[ends[1]] = i
    else:
        ends[0] = i
    ends[1] = i


@inlined
def _prepend(i, follower, ends):
    follower[i] = ends[0] if ends[0] >= 0 else i
    if ends[1] < 0:
        ends[1] = i
    ends[0] = i


@inlined
def _take(follower, ends):
    i = ends[0]
    if follower[i] == i:
        ends[0] = ends[1] = -1
    else:
        ends[0] = follower[i]
    follower[i] = -1
    return i


# -- the three phases -------------------------------------------------------------------------------


@inlined
def _grow(i, first, head, sister, left, parent, in_sink, stamp, distance, waiting, ends):
    """Add free neighbors of i to its tree; return the arc from source to sink tree if they meet, else -1."""
    sink = in_sink[i]
    for a in range(first[i], first[i + 1]):
        if left[sister[a] if sink else a] <= 0.0:
            continue
        j = head[a]
        if parent[j] == _NONE:
            in_sink[j] = sink
            if waiting[j] < 0:
                _append(j, waiting, ends)
        elif in_sink[j] != sink:
            return sister[a] if sink else a
        elif stamp[j] > stamp[i] or distance[j] <= distance[i]:
            continue
        parent[j] = sister[a]  # j was free, or its path to the root over i is shorter
        stamp[j] = stamp[i]
        distance[j] = distance[i] + 1
    return -1


@inlined
def _narrowest(meeting, head, sister, left, terminal, parent):
    """The capacity of the path through the meeting arc."""
    narrow = left[meeting]
    j = head[sister[meeting]]
    while parent[j] != _TERMINAL:
        narrow = min(narrow, left[sister[parent[j]]])
        j = head[parent[j]]
    narrow = min(narrow, terminal[j])
    j = head[meeting]
    while parent[j] != _TERMINAL:
        narrow = min(narrow, left[parent[j]])
        j = head[parent[j]]
    return min(narrow, -terminal[j])


@inlined
def _augment(meeting, narrow, head, sister, left, terminal, parent, orphan, ends):
    """Send ``narrow`` along the path; nodes whose arc to the parent is saturated become orphans."""
    left[meeting] -= narrow
    left[sister[meeting]] += narrow
    for side in range(2):
        j = head[sister[meeting]] if side == 0 else head[meeting]
        while True:
            a = parent[j]
            if a == _TERMINAL:
                terminal[j] += narrow if side == 1 else -narrow
                spent = terminal[j] == 0.0
            else:
                along = sister[a] if side == 0 else a  # the arc in the direction of the flow
                left[along] -= narrow
                left[sister[along]] += narrow
                spent = left[along] == 0.0
            if spent:
                parent[j] = _ORPHAN
                _prepend(j, orphan, ends)
            if a == _TERMINAL:
                break
            j = head[a]


@inlined
def _origin(j, parent, head, stamp, distance, time):
    """Number of steps from j to the root of its tree, or _FAR if an orphan is on the path."""
    d = 0
    while True:
        if stamp[j] == time:
            return d + distance[j]
        a = parent[j]
        d += 1
        if a == _TERMINAL:
            stamp[j] = time
            distance[j] = 1
            return d
        if a == _ORPHAN:
            return _FAR
        j = head[a]


@inlined
def _adopt(i, first, head, sister, left, parent, in_sink, stamp, distance, time):
    """Find a parent for the orphan i in its tree, nearest to the root; True if there is one."""
    sink = in_sink[i]
    best, nearest = -1, _FAR
    for a in range(first[i], first[i + 1]):
        j = head[a]
        if left[a if sink else sister[a]] <= 0.0 or in_sink[j] != sink or parent[j] == _NONE:
            continue
        d = _origin(j, parent, head, stamp, distance, time)
        if d == _FAR:
            continue
        if d < nearest:
            best, nearest = a, d
        while stamp[j] != time:  # cache the distances for later calls
            stamp[j] = time
            distance[j] = d
            d -= 1
            j = head[parent[j]]
    if best >= 0:
        parent[i] = best
        stamp[i] = time
        distance[i] = nearest + 1
    return best >= 0


@inlined
def _set_free(i, first, head, sister, left, parent, in_sink, waiting, ends, orphan, orphan_ends):
    """Remove i from its tree: its children become orphans, neighbors that could reach it become active."""
    parent[i] = _NONE
    for a in range(first[i], first[i + 1]):
        j = head[a]
        if in_sink[j] != in_sink[i] or parent[j] == _NONE:
            continue
        if left[a if in_sink[i] else sister[a]] > 0.0 and waiting[j] < 0:
            _append(j, waiting, ends)
        if parent[j] >= 0 and head[parent[j]] == i:
            parent[j] = _ORPHAN
            _append(j, orphan, orphan_ends)


@entry
def max_flow(first, head, sister, left, terminal, source_side):
    """The value of the flow; ``source_side`` becomes the cut. ``left`` and ``terminal`` are overwritten."""
    n = len(terminal)
    parent, in_sink = np.full(n, _NONE, np.int64), np.zeros(n, np.bool_)
    stamp, distance = np.zeros(n, np.int64), np.zeros(n, np.int64)
    waiting, ends = np.full(n, -1, np.int64), np.full(2, -1, np.int64)
    orphan, orphan_ends = np.full(n, -1, np.int64), np.full(2, -1, np.int64)
    for i in range(n):
        if terminal[i] != 0.0:
            in_sink[i] = terminal[i] < 0.0
            parent[i] = _TERMINAL
            distance[i] = 1
            _append(i, waiting, ends)
    flow, time, current = 0.0, 0, -1
    while True:
        i = current
        if i < 0 or parent[i] == _NONE:
            if ends[0] < 0:
                break
            i = _take(waiting, ends)
            if parent[i] == _NONE:
                current = -1
                continue
        meeting = _grow(
            i, first, head, sister, left, parent, in_sink, stamp, distance, waiting, ends
        )
        time += 1
        current = -1 if meeting < 0 else i
        if meeting < 0:
            continue
        narrow = _narrowest(meeting, head, sister, left, terminal, parent)
        flow += narrow
        _augment(meeting, narrow, head, sister, left, terminal, parent, orphan, orphan_ends)
        while orphan_ends[0] >= 0:
            i = _take(orphan, orphan_ends)
            if not _adopt(i, first, head, sister, left, parent, in_sink, stamp, distance, time):
                _set_free(
                    i,
                    first,
                    head,
                    sister,
                    left,
                    parent,
                    in_sink,
                    waiting,
                    ends,
                    orphan,
                    orphan_ends,
                )
    for i in range(n):
        source_side[i] = parent[i] != _NONE and not in_sink[i]
    return flow
