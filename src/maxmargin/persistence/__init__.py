"""Model files: the parameters, fitted attributes and certificate of an estimator, and no code.

The format is that of :mod:`maxmargin.files`. The header's entry ``about`` is JSON with the class, the
parameters and the certificate; the tree holds the fitted attributes. Loading makes objects from fixed lists
of classes only, and checks kinds, shapes, types and index ranges before compiled code sees an array. Whether
a fit could have produced the entries is not checked.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypeVar, cast, overload

from sklearn.utils.validation import check_is_fitted

from maxmargin.files import codec, container
from maxmargin.files.codec import FormatError, shown
from maxmargin.losses import ScoreLoss
from maxmargin.persistence._fields import Sizes, read_fields, section, write_fields
from maxmargin.persistence._models import CERTIFICATE, MODELS, SavedEstimator, check_task
from maxmargin.persistence._objects import MissingLossError, convert, makers, own_loss
from maxmargin.persistence._params import read_params, storable_params
from maxmargin.tasks import LatentTask, Task

__all__ = ["ModelFileError", "SavedEstimator", "load", "read_notes", "save"]

Expected = TypeVar("Expected", bound=SavedEstimator)


class ModelFileError(ValueError):
    """A model file is damaged, was made by something else, or contradicts itself."""


def save(
    estimator: Any, path: str | os.PathLike[str], notes: Mapping[str, str] | None = None
) -> None:
    """Write a fitted estimator to one file that holds no code.

    Stored are the weights, the classes or labels, names of features, the parameters, the certificate, and the
    versions of the library, Python, NumPy and Numba.

    Not stored are ``history_`` (a loaded estimator has an empty one, and files of equal models are equal
    byte for byte), ``callbacks`` (they are code; the loaded estimator has none) and the task of a
    StructuredSVM. Another parameter that is code, such as your own solver, is replaced by its default, with
    a warning.

    The file appears complete or not at all: it is written under another name and then renamed. A pipe or a
    device, such as ``/dev/stdout``, is written to.

    Parameters
    ----------
    estimator : estimator
        A fitted estimator. Labels must be str, int, float, bool, None or tuples of these.
    path : str or path
        The file; one that exists is replaced.
    notes : dict of str, optional
        Strings of your own, such as where the training data came from. :func:`read_notes` returns them.

    See Also
    --------
    load : Read the file.

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
    model = MODELS.get(type(estimator).__name__)
    if model is None or type(estimator) is not model.cls:
        raise TypeError(
            f"a {type(estimator).__name__} cannot be saved; only {', '.join(MODELS)} can, and not their "
            "subclasses."
        )
    check_is_fitted(estimator, model.required)
    encoder = codec.Encoder(convert)
    try:
        tree = codec.dumps(encoder.encode(model.fitted_values(estimator)))
        content = {
            "class": model.cls.__name__,
            "params": storable_params(estimator),
            "certificate": write_fields(estimator, CERTIFICATE),
            **({"notes": dict(notes)} if notes else {}),
        }
        about = codec.dumps(encoder.encode(content))
    except codec.NotPlainError as error:
        raise ValueError(f"the model cannot be saved: {error}.") from error
    arrays = encoder.finish()
    try:  # what could not be loaded is not written
        own = [own_loss(getattr(estimator, name, None)) for name in ("loss", "measure")]
        _read(about, tree, arrays, own[0] or own[1])
    except (*codec.CONTRADICTIONS, MissingLossError) as error:
        raise ValueError(
            f"this {model.cls.__name__} is not in a state that can be saved: {error}. Was it changed after "
            "fit?"
        ) from error
    container.write(container.target(path), "model", about, tree, arrays)


@overload
def load(
    path: str | os.PathLike[str],
    *,
    expected: type[Expected],
    task: Task | LatentTask | None = None,
    loss: type[ScoreLoss] | None = None,
    measure: type[ScoreLoss] | None = None,
) -> Expected: ...
@overload
def load(
    path: str | os.PathLike[str],
    *,
    expected: None = None,
    task: Task | LatentTask | None = None,
    loss: type[ScoreLoss] | None = None,
    measure: type[ScoreLoss] | None = None,
) -> SavedEstimator: ...
def load(
    path: str | os.PathLike[str],
    *,
    expected: type[Any] | None = None,
    task: Task | LatentTask | None = None,
    loss: type[ScoreLoss] | None = None,
    measure: type[ScoreLoss] | None = None,
) -> SavedEstimator:
    """Read an estimator that its method ``save`` wrote.

    No code from the file is run. A file that is damaged raises a ``maxmargin.persistence.ModelFileError``
    that says what is wrong. Kinds, shapes, types and index ranges are checked, whoever wrote the file;
    whether the weights and the certificate are those of a fit is not.

    Parameters
    ----------
    path : str or path
        The file.
    expected : class, optional
        The class of the estimator, such as ``LinearSVC``. A file that holds another one is refused. Type
        checkers then know the class of the result.
    task : Task, optional
        Needed for a StructuredSVM or a LatentStructuredSVM, whose task is code and not in the file: a
        task that is ready to predict, which means that it was set up on the label set of training, or needs
        no ``setup`` to predict. If the task has an attribute ``dim``, it is compared with the file.
    loss : class derived from ScoreLoss, optional
        The class of your own loss, if the estimator was trained with one: it is code and not in the file. Its
        parameters are in the file.
    measure : class derived from ScoreLoss, optional
        The same for a MeasureSVC that was trained for your own measure.

    Returns
    -------
    estimator
        A fitted estimator with its certificate. Its predictions are bit-identical to those of the saved one.
        It can be fitted again. ``history_`` is empty.

    Raises
    ------
    ModelFileError
        A ValueError: the file is damaged, contradicts itself, has a newer format, or does not hold an
        ``expected`` estimator.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import maxmargin
    >>> X, y = [[["w=the"], ["w=cat"]], [["w=a"], ["w=dog"]]], [["DET", "NOUN"], ["DET", "NOUN"]]
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "tagger.safetensors"
    >>> tagger = maxmargin.SequenceTagger().fit(X, y).save(path)
    >>> maxmargin.load(path, expected=maxmargin.SequenceTagger).predict([[["w=the"], ["w=dog"]]])
    [['DET', 'NOUN']]
    """
    if expected is not None and expected not in [model.cls for model in MODELS.values()]:
        raise TypeError(f"expected={expected!r}: give one of the classes {', '.join(MODELS)}.")
    for name, given in (("loss", loss), ("measure", measure)):
        if given is not None and not (isinstance(given, type) and issubclass(given, ScoreLoss)):
            raise TypeError(
                f"{name}={given!r}: give the class of the {name}, not an object; its parameters are in the "
                "file."
            )
    try:
        with container.refusing(path, ModelFileError):
            contents = container.read(path, "model")
            cls, params, attributes, sizes = _read(*contents, measure if loss is None else loss)
    except MissingLossError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from error
    if expected is not None and cls is not expected:
        raise ModelFileError(
            f"{os.fspath(path)}: the file holds a {cls.__name__}, not a {expected.__name__}."
        )
    for name, given in (("loss", loss), ("measure", measure)):
        if given is not None and not isinstance(params.get(name), given):
            raise ValueError(
                f"{name}= is for a model that was trained with your own {name}; {path} holds a "
                f"{cls.__name__} with {name}={params.get(name)!r}."
            )
    if "task" in cls._get_param_names():
        check_task(task, attributes.pop("task"), sizes["dim"])
        params["task"] = attributes["task_"] = task
    elif task is not None:
        raise ValueError(
            f"task= is for a StructuredSVM or a LatentStructuredSVM; {path} holds a {cls.__name__}."
        )
    try:
        estimator = cls(**params)
    except NotImplementedError as error:  # a kernel, and a task without kernel inputs
        raise ValueError(f"the task does not fit the model in {path}: {error}") from error
    except codec.CONTRADICTIONS as error:
        raise ModelFileError(f"{os.fspath(path)}: {shown(error)}") from error
    for name, value in attributes.items():
        setattr(estimator, name, value)
    return cast(SavedEstimator, estimator)


def read_notes(path: str | os.PathLike[str]) -> dict[str, str]:
    """The notes of a model file, as they were passed to :func:`save`.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    dict of str
        The notes; empty if there are none.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from maxmargin import LinearSVC
    >>> from maxmargin.persistence import read_notes, save
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "small.safetensors"
    >>> save(LinearSVC().fit([[0.0], [1.0]], [0, 1]), path, notes={"source": "two points"})
    >>> read_notes(path)
    {'source': 'two points'}
    """
    with container.refusing(path, ModelFileError):
        about, _, arrays = container.read(path, "model")
        skipping = dict.fromkeys(makers(None), lambda content: None)
        stored = codec.Decoder(arrays, skipping).decode(about, "the header")
        notes: dict[str, str] = stored.get("notes", {})
        if not isinstance(notes, dict) or not all(type(note) is str for note in notes.values()):
            raise FormatError("the notes are not strings")
        return notes


def _read(
    about: bytes, tree: bytes, arrays: Any, loss: Any
) -> tuple[Any, dict[str, Any], dict[str, Any], Sizes]:
    """Class, parameters, attributes and lengths, all checked; ``loss`` is the class of a user's own loss."""
    keyword = "measure" if b'"measure":' in about else "loss"  # for errors
    decoder = codec.Decoder(arrays, makers(loss, keyword))
    stored = decoder.decode(about, "the header")
    stored = section(stored, "the header", ("class", "params", "certificate"), ("notes",))
    name = stored["class"]
    if not isinstance(name, str) or name not in MODELS:
        raise FormatError(f"the file names a class {shown(name)}, which is not known")
    model = MODELS[name]
    attributes, sizes = model.attributes(decoder.decode(tree, "the tree"))
    params = read_params(model.cls, stored["params"])
    certificate = read_fields(stored["certificate"], CERTIFICATE, "the certificate", {})
    return model.cls, params, {**attributes, **certificate, "history_": []}, sizes
