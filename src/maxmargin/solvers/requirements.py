"""The capabilities a solver needs, and the error if a risk lacks them."""

from __future__ import annotations

from dataclasses import dataclass

from maxmargin.core.contract.risk import Risk
from maxmargin.core.contract.row_duals import refused
from maxmargin.core.regularizer import SquaredNorm

#: the advice if a method does not fit: cutting planes need evaluations only
INSTEAD = "Use solver=CuttingPlane()."


@dataclass(frozen=True, slots=True)
class Needs:
    """Capabilities of which a risk must offer at least one; evaluations only if none is set.

    Parameters
    ----------
    methods : tuple of str
        Names of methods over samples: see :class:`maxmargin.core.contract.row_duals.RowDualRisk`.
    working_sets : bool
        Working sets of single examples.
    sampled_cuts : bool
        Evaluations with sampled cuts.
    growing : bool
        A risk over a sample of the examples, which can be enlarged.
    blocks : bool
        The dual of a kernel machine, optimized over large blocks of samples.
    wide : bool
        Planes that stay with the rows.

    Examples
    --------
    >>> from maxmargin.solvers import DualCoordinate, Needs, Newton
    >>> Newton().needs == Needs(methods=("newton",))
    True
    >>> DualCoordinate().needs.working_sets
    True
    """

    methods: tuple[str, ...] = ()
    working_sets: bool = False
    sampled_cuts: bool = False
    growing: bool = False
    blocks: bool = False
    wide: bool = False


def require(solver: object, needs: Needs, risk: Risk, regularizer: SquaredNorm) -> None:
    """Raise TypeError, with advice, unless the risk offers one of the capabilities needed."""
    why = _missing(solver, needs, risk, regularizer)
    if why is not None:
        raise TypeError(why)


def _missing(solver: object, needs: Needs, risk: Risk, regularizer: SquaredNorm) -> str | None:
    if needs == Needs():
        return None
    offers, name, own = risk.offers, type(solver).__name__, type(risk).__name__
    if needs.wide and offers.wide is None:
        return f"space='rows' needs a risk of scores X w; {own} is not one. Use space='features'."
    if needs.blocks and offers.blocks is None:
        return f"{name} needs a risk of functions of a kernel; {own} is not one. {INSTEAD}"
    if needs.growing and offers.growing is None:
        return (
            f"{name}(constant_time=True) needs a risk that can start with few examples; {own} cannot. Use "
            "constant_time=False."
        )
    if needs.sampled_cuts and risk.oracle != "sampled":
        return f"{name} needs a risk whose cuts can be sampled; those of {own} cannot. {INSTEAD}"
    if needs.working_sets and offers.working_sets is not None:
        return None
    if needs.methods and offers.row_duals is not None:
        reasons = {m: offers.row_duals.refusal(m, regularizer) for m in needs.methods}
        if None in reasons.values():
            return None
        method, why = next(iter(reasons.items()))
        return refused(method, str(why))
    if needs.working_sets:
        return f"{name} cannot train {own}: it has no working sets of single examples. {INSTEAD}"
    if needs.methods:
        return f"{name} cannot train {own}: it does not give access to single rows. {INSTEAD}"
    return None
