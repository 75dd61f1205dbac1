"""A computation as a list of ONNX operators, independent of the package that writes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

#: what the graphs need: ReduceSum takes its axes as an input since 13. onnxruntime 1.10 reads this version
OPSET = 15

Attribute: TypeAlias = int | float | str


@dataclass(frozen=True, slots=True)
class Node:
    """One operator: names of its inputs and its output."""

    op: str
    inputs: tuple[str, ...]
    output: str
    attributes: dict[str, Attribute]


@dataclass(slots=True)
class OnnxGraph:
    """Operators in the order of evaluation, over constants of one floating-point type."""

    dtype: np.dtype[Any]
    constants: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)

    def constant(self, name: str, value: object) -> str:
        """Store an array in the graph's type; return its name."""
        return self.raw_constant(name, np.asarray(value, dtype=self.dtype))

    def raw_constant(self, name: str, value: npt.NDArray[Any]) -> str:
        """Store an array of integers or strings; return its name."""
        self.constants[name] = value
        return name

    def add(self, op: str, *inputs: str, **attributes: Attribute) -> str:
        """Append an operator; return the name of its output."""
        output = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(Node(op, inputs, output, attributes))
        return output

    def cast(self, name: str) -> str:
        """Convert booleans or integers to the graph's type."""
        return self.add("Cast", name, to=onnx_type(self.dtype))


def onnx_type(dtype: np.dtype[Any]) -> int:
    """The number of a type in ONNX (``onnx.TensorProto``)."""
    numbers = {"float32": 1, "int64": 7, "bool": 9, "float64": 11}
    return 8 if dtype.kind in "OUS" else numbers[dtype.name]
