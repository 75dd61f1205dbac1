"""Converters for skl2onnx, so that it can convert pipelines. skl2onnx is imported when
it is needed."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.onnx_export.formulas import (
    CLASSIFIERS,
    REGRESSORS,
    has_probabilities,
    label_set,
    label_values,
    outputs,
    scores_shape,
)
from maxmargin.onnx_export.graph import OPSET, OnnxGraph, onnx_type


def register() -> None:
    """Register all estimators."""
    from skl2onnx import update_registered_converter

    for cls in CLASSIFIERS + REGRESSORS:
        update_registered_converter(
            cls, f"Maxmargin{cls.__name__}", _shapes, _convert, parser=_parse, overwrite=True
        )


def _parse(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """Declare the outputs: labels, scores and probabilities, or predictions."""
    from skl2onnx import get_model_alias
    from skl2onnx.common import data_types

    operator = scope.declare_local_operator(get_model_alias(type(model)), model)
    operator.inputs.extend(inputs)
    real = data_types.guess_tensor_type(inputs[0].type)
    if isinstance(model, CLASSIFIERS):
        kinds = {
            "i": data_types.Int64TensorType,
            "f": data_types.DoubleTensorType,
            "b": data_types.BooleanTensorType,
            "O": data_types.StringTensorType,
        }
        label = kinds[label_values(label_set(model)).dtype.kind]()
        operator.outputs.append(scope.declare_local_variable("label", label))
        operator.outputs.append(scope.declare_local_variable("scores", real))
        if has_probabilities(model):
            operator.outputs.append(scope.declare_local_variable("probabilities", real))
    else:
        operator.outputs.append(scope.declare_local_variable("prediction", real))
    return operator.outputs


def _shapes(operator: Any) -> None:
    columns = scores_shape(operator.raw_operator)
    labels, *scores = operator.outputs
    labels.type.shape = [None]
    for output in scores[:1] or [labels]:
        output.type.shape = [None] if columns is None else [None, columns]
    for output in scores[1:]:
        output.type.shape = [None, len(operator.raw_operator.classes_)]


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Append our operators under names that are unique in the model."""
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    source = operator.inputs[0].type
    if not isinstance(source, FloatTensorType | DoubleTensorType):
        raise TypeError(
            f"maxmargin's estimators need an input of floating-point numbers, not {source}."
        )
    dtype = np.dtype(np.float64 if isinstance(source, DoubleTensorType) else np.float32)
    graph = OnnxGraph(dtype)
    names = outputs(graph, operator.raw_operator, "X")
    unique = {"X": operator.inputs[0].full_name}
    for name, value in graph.constants.items():
        unique[name] = scope.get_unique_variable_name(name)
        content = (
            [str(v) for v in value.ravel()] if value.dtype.kind == "O" else value.ravel().tolist()
        )
        container.add_initializer(unique[name], onnx_type(value.dtype), value.shape, content)
    version = min(OPSET, container.target_opset)
    for node in graph.nodes:
        unique[node.output] = scope.get_unique_variable_name(node.output)
        inputs = [unique[name] for name in node.inputs]
        container.add_node(
            node.op, inputs, [unique[node.output]], op_version=version, **node.attributes
        )
    for name, variable in zip(names, operator.outputs, strict=True):
        container.add_node("Identity", [unique[name]], [variable.full_name], op_version=version)
