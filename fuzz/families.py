"""The families of random problems, one module each; see :mod:`fuzz.framework` for their interface."""

from __future__ import annotations

from types import ModuleType

from fuzz import (
    grid,
    kernel,
    kernel_scores,
    logistic,
    measure,
    ordinal,
    path,
    rank,
    scores,
    stream,
    structured_decisions,
    structured_grammar,
    structured_graph,
    structured_latent,
    structured_stream,
    structured_svm,
    structured_tagger,
    svc,
    svr,
)

#: linear estimators and the risks below them
LINEAR: list[ModuleType] = [
    svc,
    logistic,
    ordinal,
    svr,
    measure,
    rank,
    scores,
    path,
    grid,
    stream,
]

#: sequences, structured outputs, graphs, grammars, latent variables
STRUCTURED: list[ModuleType] = [
    structured_tagger,
    structured_svm,
    structured_latent,
    structured_graph,
    structured_grammar,
    structured_stream,
    structured_decisions,
]

#: kernel machines
KERNEL: list[ModuleType] = [kernel, kernel_scores]

FAMILIES: list[ModuleType] = [*LINEAR, *STRUCTURED, *KERNEL]


def named(name: str) -> list[ModuleType]:
    """The families whose name contains ``name``; all of them for an empty string."""
    exact = [family for family in FAMILIES if name == family.NAME]
    found = exact or [family for family in FAMILIES if name.lower() in family.NAME.lower()]
    if not found:
        known = ", ".join(family.NAME for family in FAMILIES)
        raise SystemExit(f"--only {name}: no family has this in its name; there are {known}.")
    return found
