"""The interface between solvers and risks is explicit: no capability is discovered by probing an object."""

import re
from pathlib import Path

import maxmargin
from maxmargin import solvers
from maxmargin.solvers.requirements import Needs

SOURCE = Path(maxmargin.__file__).parent

#: shards are called by the name of a method; records are written field by field
REFLECTION = {"core/engine.py": 1, "solvers/history_columns.py": 1}


def test_core_and_solvers_probe_no_attributes():
    found = {}
    for folder in ("core", "solvers"):
        for file in (SOURCE / folder).rglob("*.py"):
            count = len(re.findall(r"\b(?:hasattr|getattr)\(", file.read_text()))
            if count:
                found[str(file.relative_to(SOURCE))] = count
    assert found == REFLECTION


def test_shards_are_called_by_methods_not_by_strings():
    calls = re.compile(r"\.(?:reduce|gather|ask)\(\s*[\"']")
    assert [str(f) for f in SOURCE.rglob("*.py") if calls.search(f.read_text())] == []


def test_every_solver_declares_what_it_needs():
    for name in (
        "Auto",
        "AutoStructured",
        "CuttingPlane",
        "DualCoordinate",
        "KernelBlocks",
        "Newton",
    ):
        assert isinstance(getattr(solvers, name)().needs, Needs)
    assert solvers.SampledCuts(constant_time=True).needs.growing
