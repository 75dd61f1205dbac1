"""A file that is damaged, or made to do harm, raises a ModelFileError or loads, and runs no code."""

from __future__ import annotations

import json
import pickle
import tracemalloc
from io import BytesIO

import numpy as np
import pytest
from fuzz.file_damage import Parts, rechecked
from safetensors.numpy import save as st_save

from maxmargin import load
from maxmargin.persistence import ModelFileError
from maxmargin.tasks import Chain


def parts(data: bytes):
    """(header, tensors) of a file; the header has an entry for the fitted attributes."""
    whole = Parts(data)
    tree = json.loads(whole.arrays.pop("tree").tobytes())
    return {**json.loads(whole.metadata["about"]), "fitted": tree}, whole.arrays


def joined(header, tensors, **metadata) -> bytes:
    """A file with a correct checksum; a header may also be any text."""
    tree = {}
    if isinstance(header, dict):
        tree = header.get("fitted", {})
        header = {name: value for name, value in header.items() if name != "fitted"}
    text = header if isinstance(header, str) else json.dumps(header)
    whole = Parts.__new__(Parts)
    whole.metadata = {
        "checksum": "0" * 64,
        "format": "maxmargin model 3",
        "library": "1",
        "about": text,
    }
    whole.metadata |= metadata
    whole.arrays = {**tensors, "tree": np.frombuffer(json.dumps(tree).encode(), np.uint8)}
    return rechecked(whole.join(np.random.default_rng(0)))


def refused(path, data: bytes, match: str | None = None) -> str:
    path.write_bytes(data)
    with pytest.raises(ModelFileError, match=match) as caught:
        load(path, task=Chain(n_labels=2))
    assert str(path) in str(caught.value)
    return str(caught.value)


# -- chance ----------------------------------------------------------------------------------------

KINDS = ["LinearSVC", "SequenceTagger", "StructuredSVM"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_truncation_is_refused(kind, files, path):
    data = files[kind]
    for end in {*range(64), *range(64, len(data), 37), len(data) - 1}:
        refused(path, data[:end])
        refused(path, rechecked(data[:end]))
    refused(path, rechecked(data + b"\0"), "damaged")


# -- other formats ---------------------------------------------------------------------------------


class Payload:
    """Unpickling this would write a file."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return (open, (str(self.target), "w"))


def test_a_pickle_is_not_executed(path, tmp_path, files):
    target = tmp_path / "executed"
    attack = pickle.dumps(Payload(target))
    refused(path, attack)
    _, tensors = parts(files["LinearSVC"])
    refused(path, joined(attack.decode("latin-1"), tensors), "JSON")
    array = BytesIO()
    np.save(array, np.array([Payload(target)], dtype=object), allow_pickle=True)
    refused(path, array.getvalue())
    assert not target.exists()


def test_somebody_elses_safetensors(path):
    refused(path, st_save({"a": np.zeros(3)}), "not a model of maxmargin")
    refused(
        path, st_save({"a": np.zeros(3)}, metadata={"format": "pt"}), "not a model of maxmargin"
    )


# -- intent ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"class": "os.system"}, "class 'os.system', which is not known"),
        ({"class": "StructuredSVM"}, "the fitted part lacks task"),
        ({"params": {"gama": 1.0}}, "parameters of LinearSVC has entries"),
        ({"extra": 1}, "do not belong there: \\['extra'\\]"),
    ],
)
def test_header(change, text, files, path):
    header, tensors = parts(files["LinearSVC"])
    refused(path, joined({**header, **change}, tensors), text)


def test_other_formats(files, path):
    given = parts(files["LinearSVC"])
    newer = joined(*given, format="maxmargin model 4", library="9.9")
    refused(path, newer, "a maxmargin model 4, written by maxmargin 9.9, .* upgrade maxmargin")
    refused(path, joined(*given, format="maxmargin checkpoint 3"), "is a maxmargin checkpoint 3")
    for wrong in (None, 7, [], {"a": 1}, "x" * 10_000, "maxmargin " + "x" * 10_000):
        assert len(refused(path, joined(*given, format=wrong))) < 900


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("unknown", 1, "do not belong there"),
        ("engine", "ray://elsewhere:10001", "not an address"),
        ("tol", {"$object": {"class": "RelativeGap", "tol": -1.0}}, "must be a positive number"),
        ("solver", {"$object": {"class": "Popen"}}, "names a class 'Popen'"),
        ("class_weight", {"$dict": [[[0], 1.0]]}, "unhashable"),
        ("cost", {"$array": "none"}, "lacks the array 'none'"),
        ("cost", {"$array": ["coef_", "|O", [3, 4]]}, "unknown form"),
        ("max_iter", {"$__import__": "os"}, "unknown form"),
    ],
)
def test_parameters(name, value, text, files, path):
    header, tensors = parts(files["LinearSVC"])
    header["params"][name] = value
    refused(path, joined(header, tensors), text)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"objective_": 1}, "objective_ must be a float"),
        ({"n_iter_": -1}, "n_iter"),
    ],
)
def test_certificate(change, text, files, path):
    header, tensors = parts(files["LinearSVC"])
    header["certificate"].update(change)
    refused(path, joined(header, tensors), text)


def fitted(**entries):
    return lambda header, tensors: header["fitted"].update(entries)


@pytest.mark.parametrize(
    ("kind", "edit", "text"),
    [
        ("LinearSVC", lambda h, t: t.update(coef_=np.full((3, 4), np.nan)), "not finite numbers"),
        ("LinearSVC", lambda h, t: t.update(coef_=t["coef_"].T.copy()), "shape"),
        ("LinearSVC", lambda h, t: t.pop("coef_"), "lacks the array 'coef_'"),
        ("LinearSVC", fitted(n_features_in_=5), r"have shape \(3, 4\), not \(None, 5\)"),
        ("LinearSVC", fitted(classes_={"$objects": ["a", "b", ["c"]]}), "not labels"),
        ("SequenceTagger", lambda h, t: t.update(cost=-t["cost"]), "finite and nonnegative"),
        ("SequenceTagger", fitted(classes_=["A", "B", "C"]), "shape|do not fit"),
        ("SequenceTagger", fitted(order=3), "order of the tagger is 3"),
        ("StructuredSVM", lambda h, t: t.update(coef_=t["coef_"] * np.inf), "not finite numbers"),
    ],
)
def test_contents(kind, edit, text, files, path):
    header, tensors = parts(files[kind])
    edit(header, tensors)
    refused(path, joined(header, tensors), text)


@pytest.mark.parametrize("claimed", [10**9, 2**63])
def test_claims_of_size_allocate_nothing(claimed, files, path):
    attacks = []
    for kind in KINDS:
        whole = Parts(files[kind])
        name = next(iter(whole.arrays))
        data = files[kind].replace(
            json.dumps(list(whole.arrays[name].shape), separators=(",", ":")).encode(),
            json.dumps([claimed]).encode(),
            1,
        )
        length = int.from_bytes(data[:8], "little") + len(data) - len(files[kind])
        attacks.append(length.to_bytes(8, "little") + data[8:])
    header, tensors = parts(files["SequenceTagger"])
    header["fitted"]["classes_"] = list(range(100_000))  # K^2 would be 80 GB
    header["fitted"]["n_features_in_"] = 0
    attacks.append(joined(header, tensors))
    header, tensors = parts(files["LinearSVC"])
    for spec in ([0, f"<U{claimed}", [3]], ["classes_", "<i8", [claimed]], [0, "<i8", [claimed]]):
        header["fitted"]["classes_"] = {"$array": spec}
        attacks.append(joined(header, tensors))
    for data in attacks:
        tracemalloc.start()
        refused(path, data)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 100 * 2**20
