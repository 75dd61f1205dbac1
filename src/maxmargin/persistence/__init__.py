"""Models in files: one safetensors file, arrays and names in it, and no code.

The file's metadata has one entry, ``maxmargin``, whose value is JSON:

    schema, library     number of this layout; version of the library that wrote the file
    class, params       the estimator and its parameters
    fitted, certificate what ``fit`` left behind, as far as it is not arrays
    arrays              type and shape of every array, and whether it is packed (see ``_arrays``)

Loading makes objects from fixed lists of classes only and checks every entry against the others before it
is used.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

import safetensors
from safetensors.numpy import save as _to_bytes
from sklearn.utils.validation import check_is_fitted

from maxmargin.persistence._arrays import AnyArray, ArrayReader, ArrayWriter
from maxmargin.persistence._losses import MissingLossError, check_loss_class, own_loss
from maxmargin.persistence._models import (
    MODELS,
    check_task,
    read_certificate,
    store_certificate,
)
from maxmargin.persistence._params import read_params, store_params
from maxmargin.persistence._values import ModelFileError, count, dumps, loads, section, shown

__all__ = ["ModelFileError", "load", "save"]

SCHEMA = 1
_KEY = "maxmargin"
#: what safetensors allows
_MAX_HEADER = 100_000_000


def save(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to one file that holds no code.

    Stored are the weights, the classes or labels, names of features, the parameters and the certificate.
    Not stored are ``history_`` (a loaded estimator has an empty one, and files of equal models are equal
    byte for byte), ``callbacks`` (they are code; the loaded estimator has none) and the task of a
    StructuredSVM. Another parameter that is code (a solver of your own, say) is left at its default, with
    a warning.

    The file appears complete or not at all: it is written under another name and moved to its place.

    Parameters
    ----------
    estimator : LinearSVC, SequenceTagger or StructuredSVM
        A fitted estimator. Labels must be str, int, float, bool, None or tuples of these.
    path : str or path
        The file; one that exists is replaced.

    See Also
    --------
    load : The way back.

    Examples
    --------
    >>> import tempfile, pathlib, maxmargin
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "iris.safetensors"
    >>> svc = maxmargin.LinearSVC(C=0.1).fit(X, y).save(path)
    >>> again = maxmargin.load(path)
    >>> bool((again.predict(X) == svc.predict(X)).all())
    True
    >>> again.C, again.objective_ == svc.objective_, again.certificate_
    (0.1, True, 'exact')
    """
    from maxmargin import __version__

    model = MODELS.get(type(estimator).__name__)
    if model is None or type(estimator) is not model.cls:
        raise TypeError(
            f"a {type(estimator).__name__} cannot be saved; only {', '.join(MODELS)} can, and not their "
            "subclasses."
        )
    check_is_fitted(estimator, model.fitted)
    writer = ArrayWriter()
    fitted = model.write(
        estimator, writer
    )  # first: it says what stands in the way, if anything does
    header = {
        "schema": SCHEMA,
        "library": __version__,
        "class": model.cls.__name__,
        "params": store_params(estimator, writer),
        "fitted": fitted,
        "certificate": store_certificate(estimator),
        "arrays": writer.specs,
    }
    text = dumps(header).decode("utf-8")
    try:  # what could not be loaded is not written
        _read(text, writer.tensors, _own_class(estimator.get_params(deep=False)))
    except (ModelFileError, MissingLossError) as error:
        raise ValueError(
            f"this {model.cls.__name__} is not in a state that can be saved: {error}. Was it changed after "
            "fit?"
        ) from error
    data = _to_bytes(writer.tensors, metadata={_KEY: text})
    if int.from_bytes(data[:8], "little") > _MAX_HEADER:
        raise ValueError(
            "the labels and parameters take more than 100 MB: too much for a file's header."
        )
    _write_atomically(data, Path(os.path.realpath(path)))


def load(
    path: str | os.PathLike[str], *, task: Any = None, loss: Any = None, measure: Any = None
) -> Any:
    """Read an estimator that its method ``save`` wrote.

    No code from the file is run, and everything in it is checked; a file that is damaged or was made to do
    harm ends in a ``maxmargin.persistence.ModelFileError`` that says what is wrong. (What a checked file
    *predicts* is for its author to answer for.)

    Parameters
    ----------
    path : str or path
        The file.
    task : Task, optional
        Needed for a StructuredSVM or a LatentStructuredSVM, whose task is code and not in the file: a
        task that is ready to predict, which means that it has been set up on the alphabet of training, or
        needs no ``setup`` to predict. Where the task has an attribute ``dim`` it is compared with the
        file.
    loss : class derived from ScoreLoss, optional
        Needed for an estimator that was trained with a loss of your own, which is code and not in the file:
        its class. The parameters are in the file.
    measure : class derived from ScoreLoss, optional
        The same for a MeasureSVC that was trained for a measure of your own.

    Returns
    -------
    LinearSVC, SequenceTagger or StructuredSVM
        An estimator that predicts what the saved one did, bit for bit, carries its certificate, and can be
        fitted again. ``history_`` is empty.

    Raises
    ------
    ModelFileError
        A ValueError: the file is damaged, contradicts itself, or is of a newer layout.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import maxmargin
    >>> X, y = [[["w=the"], ["w=cat"]], [["w=a"], ["w=dog"]]], [["DET", "NOUN"], ["DET", "NOUN"]]
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "tagger.safetensors"
    >>> tagger = maxmargin.SequenceTagger().fit(X, y).save(path)
    >>> maxmargin.load(path).predict([[["w=the"], ["w=dog"]]])
    [['DET', 'NOUN']]
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        raise ModelFileError(f"{path} is not a file")
    check_loss_class(loss, "loss")
    check_loss_class(measure, "measure")
    try:
        text, tensors = _open(path)
        cls, params, attributes, fitted = _read(text, tensors, measure if loss is None else loss)
    except (ModelFileError, MissingLossError) as error:
        raise type(error)(f"{path}: {error}") from error
    for name, given in (("loss", loss), ("measure", measure)):
        if given is not None and not isinstance(params.get(name), given):
            raise ValueError(
                f"{name}= is for a model that was trained with a {name} of your own; {path} holds a "
                f"{cls.__name__} with {name}={params.get(name)!r}."
            )
    if "task" in cls._get_param_names():
        check_task(task, fitted)
        params["task"] = attributes["task_"] = task
    elif task is not None:
        raise ValueError(
            f"task= is for a StructuredSVM or a LatentStructuredSVM; {path} holds a {cls.__name__}."
        )
    try:
        estimator = cls(**params)
    except NotImplementedError as error:  # slack rescaling, and a task that has no argmax for it
        raise ValueError(f"the task does not fit the model in {path}: {error}") from error
    for name, value in attributes.items():
        setattr(estimator, name, value)
    return estimator


def _own_class(params: dict[str, Any]) -> Any:
    """The class of a loss or a measure of the user's own, if there is one."""
    return own_loss(params.get("loss")) or own_loss(params.get("measure"))


def _open(path: Path) -> tuple[str, dict[str, AnyArray]]:
    """The header's text and all tensors. safetensors checks that they lie in the file without overlap."""
    try:
        with safetensors.safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            if set(metadata) != {_KEY}:
                raise ModelFileError("this is a safetensors file, but not one of maxmargin's")
            return metadata[_KEY], {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (ModelFileError, OSError):
        raise
    except Exception as error:  # SafetensorError, and what NumPy says to types it does not have
        raise ModelFileError(
            f"this is not a model file, or it is damaged: {shown(error)}"
        ) from error


def _read(
    text: str, tensors: dict[str, AnyArray], loss: Any = None
) -> tuple[Any, dict[str, Any], dict[str, Any], dict[str, Any]]:
    """(class, parameters, attributes, fitted section) of a file, all checked; ``loss`` is the class of a loss
    of the user's own."""
    header = loads(text, "the header")
    if not isinstance(header, dict) or "schema" not in header:
        raise ModelFileError("the header names no schema")
    if count(header["schema"], "the schema", least=1) > SCHEMA:
        newer, library = str(header["schema"])[:20], str(header.get("library"))[:40]
        raise ModelFileError(
            f"the file has schema {newer}, written by maxmargin {library}; this version reads schema "
            f"{SCHEMA}. Upgrade maxmargin to load it"
        )
    entries = ("schema", "library", "class", "params", "fitted", "certificate", "arrays")
    header = section(header, "the header", entries)
    if not isinstance(header["library"], str):
        raise ModelFileError("the library's version is not a text")
    name = header["class"]
    if not isinstance(name, str) or name not in MODELS:
        raise ModelFileError(f"the file asks for a class {str(name)[:80]!r}, which is not known")
    model = MODELS[name]
    reader = ArrayReader(header["arrays"], tensors)
    params = read_params(model.cls, header["params"], reader, loss)
    reader.own_loss = loss
    attributes = {
        **model.read(header["fitted"], reader),
        **read_certificate(header["certificate"]),
        "history_": [],
    }
    reader.finish()
    return model.cls, params, attributes, header["fitted"]


def _write_atomically(data: bytes, path: Path) -> None:
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        with partial.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
