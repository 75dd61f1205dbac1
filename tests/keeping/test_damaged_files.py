"""A file that is damaged, or made to do harm, ends in a ModelFileError that says what is wrong."""

from __future__ import annotations

import contextlib
import copy
import json
import pickle
import tracemalloc
import warnings
from io import BytesIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load as st_load
from safetensors.numpy import save as st_save

from maxmargin import load
from maxmargin.persistence import ModelFileError
from maxmargin.tasks import Chain


def parts(data: bytes):
    """(header, tensors) of a file."""
    length = int.from_bytes(data[:8], "little")
    metadata = json.loads(data[8 : 8 + length])["__metadata__"]
    return json.loads(metadata["maxmargin"]), dict(st_load(data))


def joined(header, tensors) -> bytes:
    text = header if isinstance(header, str) else json.dumps(header)
    return st_save(tensors, metadata={"maxmargin": text})


def refused(path, data: bytes, match: str | None = None) -> str:
    path.write_bytes(data)
    with pytest.raises(ModelFileError, match=match) as caught:
        load(path, task=Chain(n_labels=2))
    assert str(path) in str(caught.value)
    return str(caught.value)


def survives(path, data: bytes) -> None:
    """Load damaged bytes: either they are refused, or the damage made another valid model."""
    path.write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the name of a task may have been hit
        with contextlib.suppress(ModelFileError):
            load(path, task=Chain(n_labels=2) if b"StructuredSVM" in data else None)


# -- chance ----------------------------------------------------------------------------------------

KINDS = ["LinearSVC", "SequenceTagger", "StructuredSVM"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_truncation_is_refused(kind, files, path):
    data = files[kind]
    for end in {*range(64), *range(64, len(data), 37), len(data) - 1}:
        refused(path, data[:end])
    refused(path, data + b"\0")


@pytest.mark.parametrize("kind", KINDS)
def test_flipped_bytes(kind, files, path):
    data = files[kind]
    rng = np.random.default_rng(0)
    header = 8 + int.from_bytes(data[:8], "little")
    for at in {*range(0, header, 3), *rng.integers(header, len(data), size=100).tolist()}:
        damaged = bytearray(data)
        damaged[at] ^= 1 << int(rng.integers(8))
        survives(path, bytes(damaged))


@given(st.data())
def test_spliced_bytes(files, tmp_path_factory, data):
    original = files[data.draw(st.sampled_from(KINDS))]
    at = data.draw(st.integers(0, len(original)))
    until = data.draw(st.integers(at, min(len(original), at + 40)))
    damaged = original[:at] + data.draw(st.binary(max_size=40)) + original[until:]
    survives(tmp_path_factory.getbasetemp() / "spliced", damaged)


junk = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 10**20) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5) | st.sampled_from(["<i8", "LinearSVC", "CuttingPlane", "object", "inf"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["tuple", "dict", "set", "float", "array", "object", "fields", "dtype", "x"]),
        inner,
        max_size=2,
    ),
    max_leaves=5,
)  # fmt: skip


def places(document, at=()):
    """All paths into a JSON document."""
    yield at
    items = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in items if isinstance(document, dict | list) else ():
        if isinstance(value, dict | list):
            yield from places(value, (*at, key))
        else:
            yield (*at, key)


@given(st.data())
def test_any_entry_of_the_header_replaced(files, tmp_path_factory, data):
    kind = data.draw(st.sampled_from(KINDS))
    header, tensors = parts(files[kind])
    at = data.draw(st.sampled_from(sorted(places(header), key=str)))
    value = data.draw(junk)
    holder = header
    for key in at[:-1]:
        holder = holder[key]
    if at:
        holder[at[-1]] = value
    else:
        header = value
    survives(tmp_path_factory.getbasetemp() / "replaced", joined(header, tensors))


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
    header, tensors = parts(files["LinearSVC"])
    refused(
        path, joined(header, {**tensors, "payload": np.frombuffer(attack, np.uint8)}), "payload"
    )
    refused(path, joined(attack.decode("latin-1"), tensors), "JSON")
    array = BytesIO()
    np.save(array, np.array([Payload(target)], dtype=object), allow_pickle=True)
    refused(path, array.getvalue())
    assert not target.exists()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        b"PK\x03\x04" + bytes(200),
        b"\x89PNG\r\n\x1a\n" + bytes(99),
        b"{}" * 50,
        bytes(64),
    ],
)
def test_other_files(data, path):
    refused(path, data)


def test_somebody_elses_safetensors(path):
    refused(path, st_save({"a": np.zeros(3)}), "not one of maxmargin's")
    refused(path, st_save({"a": np.zeros(3)}, metadata={"format": "pt"}), "not one of maxmargin's")


# -- intent ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"schema": 2, "library": "9.9", "more": 1}, "schema 2, written by maxmargin 9.9.*Upgrade"),
        ({"schema": 0}, "schema must be an int of at least 1"),
        ({"schema": True}, "schema must be an int"),
        ({"schema": "1"}, "schema must be an int"),
        ({"class": "os.system"}, "class 'os.system', which is not known"),
        ({"class": ["LinearSVC"]}, "not known"),
        ({"class": "StructuredSVM"}, "parameters of StructuredSVM has entries"),
        ({"library": None}, "version"),
        ({"extra": 1}, "do not belong there: \\['extra'\\]"),
        ({"params": []}, "must be a JSON object"),
        ({"arrays": {}}, "do not agree"),
    ],
)
def test_header(change, text, files, path):
    header, tensors = parts(files["LinearSVC"])
    refused(path, joined({**header, **change}, tensors), text)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("unknown", 1, "do not belong there"),
        ("callbacks", [], "do not belong there"),
        ("C", "1.0", "parameter C holds a value of a kind"),
        ("C", None, "parameter C"),
        ("tol", {"object": "CuttingPlane", "fields": {}}, "parameter tol"),
        ("tol", {"object": "RelativeGap", "fields": {"tol": -1.0}}, "must be a positive number"),
        ("solver", {"object": "Popen", "fields": {}}, "asks for an object 'Popen'"),
        ("solver", {"object": "CuttingPlane", "fields": {"steps": 1}}, "do not belong"),
        ("solver", {"object": "CuttingPlane", "fields": {"mu": "0.1"}}, "CuttingPlane.mu"),
        ("solver", {"object": "CuttingPlane", "fields": {"mu": 7.0}}, "must be in"),
        ("solver", {"object": "CuttingPlane", "fields": {"slacks": "many"}}, "slacks"),
        ("solver", {"object": "CuttingPlane"}, "lacks fields"),
        ("class_weight", {"dict": [[0, 1.0], [0, 2.0]]}, "distinct labels"),
        ("class_weight", {"dict": [[[0], 1.0]]}, "distinct labels"),
        ("class_weight", {"dict": [[0, {"tuple": []}]]}, "parameter class_weight"),
        ("cost", {"array": "coef"}, "unknown form"),
        ("cost", [[[]]], "parameter cost"),
        ("random_state", {"float": "nan"}, "parameter random_state"),
        ("max_iter", {"__import__": "os"}, "unknown form"),
    ],
)
def test_parameters(name, value, text, files, path):
    header, tensors = parts(files["LinearSVC"])
    header["params"][name] = value
    refused(path, joined(header, tensors), text)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"objective": 1}, "objective of the certificate must be a float"),
        ({"lower_bound": 1e9}, "lower bound is not below"),
        ({"lower_bound": {"float": "nan"}}, "lower bound is not below"),
        ({"gap": -0.5}, "cannot be negative"),
        ({"gap": {"float": "nan"}}, "cannot be negative or NaN"),
        ({"objective": {"float": "inf"}}, "claims convergence"),
        ({"converged": 1}, "true or false"),
        ({"stop_reason": "bored"}, "'bored', which is not known"),
        ({"certificate": "gold"}, "'gold', which is not known"),
        ({"n_iter": -1}, "n_iter"),
    ],
)
def test_certificate(change, text, files, path):
    header, tensors = parts(files["LinearSVC"])
    header["certificate"].update(change)
    refused(path, joined(header, tensors), text)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    ("kind", "name"),
    [("LinearSVC", "coef"), ("SequenceTagger", "weights.values"), ("StructuredSVM", "coef")],
)
def test_numbers_that_are_not_finite(kind, name, bad, files, path):
    header, tensors = parts(files[kind])
    tensors[name] = tensors[name].copy()
    tensors[name].flat[1] = bad
    refused(path, joined(header, tensors), "NaN or infinite")


def test_shapes_and_types(files, path):
    header, tensors = parts(files["LinearSVC"])
    for name, tensor, text in [
        ("coef", tensors["coef"].astype(np.float32), "header calls for float64"),
        ("coef", tensors["coef"].T.copy(), "header calls for"),
        ("intercept", tensors["intercept"][:2].copy(), "header calls for"),
        ("classes", tensors["classes"][[0, 0, 1]].copy(), "not distinct"),
    ]:
        refused(path, joined(header, {**tensors, name: tensor}), text)
    without = {name: tensor for name, tensor in tensors.items() if name != "coef"}
    refused(path, joined(header, without), "do not agree on \\['coef'\\]")
    wrong = copy.deepcopy(header)
    wrong["fitted"]["n_features"] = 5
    refused(path, joined(wrong, tensors), "\\('any', 5\\) is needed")
    wrong = copy.deepcopy(header)
    wrong["fitted"]["classes"]["dtype"] = "<U3"
    refused(path, joined(wrong, tensors), "not expected")
    wrong = copy.deepcopy(header)
    wrong["fitted"]["classes"] = {"dtype": "object", "values": ["a", "b", "c", "d"]}
    refused(path, joined(wrong, tensors), "3 rows of weights do not fit 4 classes")


def test_packed_arrays(files, path):
    header, tensors = parts(files["SequenceTagger"])
    mask, values = tensors["weights.mask"], tensors["weights.values"]
    more = mask.copy()
    more[-1] |= 1  # a position beyond the end
    size = header["arrays"]["weights"]["shape"][0]
    assert size % 8, "the test needs padding"
    refused(path, joined(header, {**tensors, "weights.mask": more}), "positions beyond its end")
    refused(path, joined(header, {**tensors, "weights.mask": mask[:-1].copy()}), "header calls for")
    refused(path, joined(header, {**tensors, "weights.values": values[:-1].copy()}), "calls for")
    zeros = np.zeros_like(mask)
    refused(
        path, joined(header, {**tensors, "weights.mask": zeros}), r"header calls for float64 \(0,\)"
    )


def test_tagger(files, path):
    header, tensors = parts(files["SequenceTagger"])
    for labels, text in [
        (["A", "A", "B", "C"], "not distinct"),
        (["A", "B", "C"], "is needed"),
        ([], "no labels"),
        (["A", "B", "C", ["D"]], "list of labels"),
        (["A", "B", "C", {"float": "nan"}], "list of labels"),
    ]:
        wrong = copy.deepcopy(header)
        wrong["fitted"]["labels"] = labels
        refused(path, joined(wrong, tensors), text)
    for name, tensor, text in [
        ("allowed", tensors["allowed"][:3].copy(), "header calls for"),
        ("cost", -tensors["cost"], "cost must be finite and nonnegative"),
        ("vocabulary", tensors["vocabulary"] + 1, "JSON"),
    ]:
        refused(path, joined(header, {**tensors, name: tensor}), text)
    names = json.loads(tensors["vocabulary"].tobytes())
    for changed, text in [(names[:-1], "names for"), (names[:-1] + names[:1], "not distinct")]:
        vocabulary = np.frombuffer(json.dumps(changed).encode(), np.uint8)
        wrong = copy.deepcopy(header)
        wrong["arrays"]["vocabulary"]["shape"] = [len(vocabulary)]
        refused(path, joined(wrong, {**tensors, "vocabulary": vocabulary}), text)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "null", "{", '{"schema": NaN}', '{"schema":1,"schema":1}', "[" * 100_000, "9" * 5000,
     '{"schema": ' + "9" * 4000 + "}"],
)  # fmt: skip
def test_header_that_is_not_what_it_should_be(text, files, path):
    _, tensors = parts(files["LinearSVC"])
    refused(path, joined(text, tensors))


def test_deep_nesting(files, path):
    header, tensors = parts(files["SequenceTagger"])
    label: object = "A"
    for _ in range(60):
        label = {"tuple": [label]}
    header["fitted"]["labels"][0] = label
    refused(path, joined(header, tensors), "nested more than")


@pytest.mark.parametrize("claimed", [10**9, 10**15, 2**63, 10**30])
def test_claims_of_size_allocate_nothing(claimed, files, path):
    attacks = []
    header, tensors = parts(files["SequenceTagger"])
    header["arrays"]["weights"]["shape"] = [claimed * 4 + 24]
    header["fitted"]["n_features"] = claimed
    attacks.append(joined(header, tensors))
    header, tensors = parts(files["SequenceTagger"])
    header["fitted"]["labels"] = list(range(100_000))  # K^2 would be 80 GB
    header["arrays"]["weights"]["shape"] = [10**10 + 2 * 10**5]
    header["fitted"]["n_features"] = 0
    attacks.append(joined(header, tensors))
    header, tensors = parts(files["LinearSVC"])
    header["arrays"]["coef"] = {"dtype": "float64", "shape": [3, claimed], "packed": True}
    header["fitted"]["n_features"] = claimed
    del tensors["coef"]
    tensors |= {"coef.mask": np.zeros(9, np.uint8), "coef.values": np.zeros(0)}
    attacks.append(joined(header, tensors))
    header, tensors = parts(files["LinearSVC"])
    header["fitted"]["classes"]["dtype"] = f"<U{claimed}"
    attacks.append(joined(header, tensors))
    for data in attacks:
        tracemalloc.start()
        refused(path, data)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 64 * 2**20
