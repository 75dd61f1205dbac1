"""What is not a list of sequences is converted, or refused by sequence, token and feature."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from maxmargin import SequenceTagger, data, load

SENTENCE = [["w=the", "last=e"], ["w=cat", "last=t"], ["w=sat", "last=t"]]
TAGS = ["D", "N", "V"]


class Tensor:
    """A tensor of another library: NumPy can read it, and single numbers have a hash of their own."""

    def __init__(self, values):
        self._values = np.asarray(values)

    @property
    def shape(self):
        return self._values.shape

    @property
    def ndim(self):
        return self._values.ndim

    def __array__(self, dtype=None, copy=None):
        return np.array(self._values, dtype=dtype)

    def __len__(self):
        return len(self._values)

    def __iter__(self):
        return (Tensor(v) for v in self._values)

    def __getitem__(self, i):
        return Tensor(self._values[i])

    def __float__(self):
        return float(self._values)


class OnTheCard(Tensor):
    def __array__(self, dtype=None, copy=None):
        raise TypeError("can't convert a device tensor; copy it to host memory first")


def numeric(seed=0, n=30):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(rng.integers(2, 6), 3)) for _ in range(n)]
    return X, [x.argmax(axis=1).tolist() for x in X]


# -- numbers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "form",
    [
        lambda x: x.tolist(),
        lambda x: tuple(map(tuple, x.tolist())),
        list,
        Tensor,
        lambda x: list(Tensor(x)),
        lambda x: pd.DataFrame(x, columns=["a", "b", "c"]),
        lambda x: pytest.importorskip("polars").DataFrame(x, schema=["a", "b", "c"]),
        lambda x: x.astype(object),
        sp.csr_array,
    ],
    ids=["lists", "tuples", "rows", "tensor", "tensors", "pandas", "polars", "objects", "sparse"],
)
def test_rows_of_numbers_are_a_matrix_in_every_form(form):
    X, Y = numeric()
    matrix = SequenceTagger(C=1.0).fit(X, Y)
    other = SequenceTagger(C=1.0).fit([form(x) for x in X], Y)
    np.testing.assert_array_equal(other.weights_, matrix.weights_)
    assert other.n_features_in_ == 3
    assert other.predict([form(x) for x in X]) == matrix.predict(X)
    assert other.score([form(x) for x in X], Y) == 1.0


def test_one_tensor_of_all_sequences():
    X = np.random.default_rng(0).normal(size=(20, 4, 3))
    Y = X.argmax(axis=2)
    tagger, listed = (
        SequenceTagger(C=1.0).fit(Tensor(X), Tensor(Y)),
        SequenceTagger(C=1.0).fit(list(X), list(Y)),
    )
    assert tagger.classes_ == [0, 1, 2]
    np.testing.assert_array_equal(tagger.weights_, listed.weights_)
    assert tagger.score(Tensor(X), Tensor(Y)) == listed.score(list(X), list(Y)) > 0.9
    stacked = Tensor(X.reshape(-1, 3))
    assert (
        tagger.predict(stacked, lengths=[4] * 20)
        == np.concatenate(listed.predict(list(X))).tolist()
    )


def test_labels_that_are_tensors_are_their_numbers():
    X, Y = numeric()
    plain = SequenceTagger(C=1.0).fit(X, Y)
    for labels in ([Tensor(y) for y in Y], [list(Tensor(y)) for y in Y], [pd.Series(y) for y in Y]):
        tagger = SequenceTagger(C=1.0).fit(X, labels)
        assert tagger.classes_ == [0, 1, 2]
        np.testing.assert_array_equal(tagger.weights_, plain.weights_)
        assert tagger.score(X, labels) == 1.0


@pytest.mark.parametrize(
    ("sequence", "error", "match"),
    [
        ([[1.0, 2.0], [1.0]], ValueError, "token 0 of sequence 1 has 2 numbers, but token 1 has 1"),
        ([[1.0, 2.0], ["a", "b"]], TypeError, r"sequence 1 .* token 1 is \['a', 'b'\]"),
        ([[1.0, "x"], [1.0, 2.0]], TypeError, r"sequence 1 .* token 0 is \[1.0, 'x'\]"),
        ([["a", 2.0], ["b", 1.0]], TypeError, "token 0 of sequence 1 .* contains 2.0"),
        ([1.0, 2.0], TypeError, "token 0 of sequence 1 is 1.0.*dict of features"),
        (np.array([1.0, 2.0]), ValueError, r"sequence 1 of X is an array of shape \(2,\)"),
        (np.ones((2, 2, 2)), ValueError, r"sequence 1 of X is an array of shape \(2, 2, 2\)"),
        (
            pd.DataFrame({"a": [1.0], "b": ["x"]}),
            TypeError,
            "sequence 1 .*'x' at token 0, column 1",
        ),
        (OnTheCard(np.eye(2)), TypeError, "sequence 1 of X is a OnTheCard .*host memory"),
        (7, TypeError, "sequence 1 of X is a int"),
        ([[None, 1.0]], TypeError, "token 0 of sequence 1 .* contains None"),
    ],
)
def test_what_is_no_matrix_is_refused_by_sequence_and_token(sequence, error, match):
    with pytest.raises(error, match=match):
        SequenceTagger().fit([np.eye(2), sequence], [[0, 1], [0, 1]])


def test_forms_are_not_mixed():
    with pytest.raises(
        TypeError, match="sequence 0 is a matrix, but sequence 1 is a list of tokens"
    ):
        SequenceTagger().fit([np.eye(2), [["a"], ["b"]]], [[0, 1], [0, 1]])
    a, b = pd.DataFrame(np.eye(2), columns=["u", "v"]), pd.DataFrame(np.eye(2), columns=["v", "u"])
    with pytest.raises(ValueError, match="sequences 0 and 1 have different columns"):
        SequenceTagger().fit([a, b], [[0, 1], [0, 1]])
    assert SequenceTagger().fit([np.eye(2), []], [[0, 1], []]).predict([[], np.eye(2)]) == [
        [],
        [0, 1],
    ]


# -- one sequence instead of a list of them --------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "y", "match"),
    [
        (SENTENCE, TAGS, r"labels of sequence 0 are the str 'D'.* pass \[X\] and \[y\]"),
        ([["a", "b"], ["c", "d"]], ["DN", "NV"], "labels of sequence 0 are the str 'DN'"),
        ([{"w": "the"}, {"w": "cat"}], ["D", "N"], r"sequence 0 of X is a dict, .*pass \[X\]"),
        (["the", "cat"], ["D", "N"], r"sequence 0 of X is the string 'the'.*pass \[X\]"),
        ([["the"], ["cat"]], [1, 2], r"labels of sequence 0 are the int 1"),
        ([["the"], ["cat"]], "DN", "y is the str 'DN'"),
        ({"w": "the"}, ["D"], "X must be a list of sequences, but it is a dict"),
        ("the cat", ["D", "N"], "it is 'the cat', a str"),
        ([["the"]], [[["D"]]], r"label of token 0 in sequence 0 is the list \['D'\]"),
        (
            [["the", "cat"]],
            [["D", float("nan")]],
            "label of token 1 in sequence 0 is the float nan",
        ),
    ],
)
def test_one_sequence_is_not_a_list_of_sequences(X, y, match):
    with pytest.raises(TypeError, match=match):
        SequenceTagger().fit(X, y)


def test_one_matrix_or_one_row_is_not_a_list_of_sequences():
    for X in (np.eye(3), sp.csr_matrix(np.eye(3)), pd.DataFrame(np.eye(3)), Tensor(np.eye(3))):
        with pytest.raises(ValueError, match=r"X is one matrix: .*lengths.*pass \[X\]"):
            SequenceTagger().fit(X, TAGS)
    with pytest.raises(TypeError, match=r"token 0 of sequence 0 is 1\.0"):
        SequenceTagger().fit(np.eye(3).tolist(), TAGS)
    with pytest.raises(ValueError, match=r"sequence 0 of X is an array of shape \(3,\)"):
        SequenceTagger().fit(list(np.eye(3)), TAGS)


def test_predict_and_score_refuse_one_sequence(tmp_path):
    tagger = SequenceTagger().fit([SENTENCE], [TAGS])
    tagger.save(tmp_path / "tagger")
    for fitted in (tagger, load(tmp_path / "tagger")):
        assert fitted.predict([SENTENCE]) == [TAGS]
        with pytest.raises(ValueError, match=r"'w=the'\), but .* fitted on .*pass \[X\]"):
            fitted.predict(SENTENCE)
        with pytest.raises(ValueError, match=r"pass \[X\]"):
            fitted.score(SENTENCE, TAGS)
        with pytest.raises(TypeError, match="sequence 0 of X is the string"):
            fitted.predict(["w=the", "w=cat"])
        with pytest.raises(TypeError, match="labels of sequence 0 are the str 'DNV'"):
            fitted.score([SENTENCE], ["DNV"])
    words = SequenceTagger().fit([["the", "cat"]], [["D", "N"]])
    assert words.predict([["cat"], ["the"]]) == [["N"], ["D"]]


def test_the_path_of_a_data_set_is_not_a_data_set(tmp_path):
    X, Y = numeric()
    data.write(tmp_path / "d", [(X, Y)])
    with pytest.raises(TypeError, match=r"maxmargin\.data\.open\(path\)"):
        SequenceTagger().fit(str(tmp_path / "d"))
    stored = data.open(tmp_path / "d")
    tagger = SequenceTagger().fit(stored)
    assert tagger.score(stored) == tagger.score(X, Y)
    assert tagger.predict(stored) == tagger.predict(X)


# -- features with names ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("token", "match"),
    [
        ({"w": "a", "len": None}, "feature 'len' of token 1 in sequence 1 is None.*Leave out"),
        ({"w": b"a"}, "feature 'w' of token 1 in sequence 1 is b'a', of bytes"),
        ({"w": object()}, "feature 'w' of token 1 in sequence 1 is a object"),
        ({"w": 1j}, "feature 'w' of token 1 in sequence 1 is the complex number"),
        ({"w": [0.1, 0.2]}, "feature 'w' of token 1 in sequence 1 is a list that contains 0.1"),
        ({"w": np.ones(2)}, "feature 'w' of token 1 in sequence 1 is a ndarray that contains"),
        ({"w": {"x": None}}, "feature 'w:x' of token 1 in sequence 1 is None"),
        ({"w": {"x": [1]}}, "feature 'w:x' of token 1 in sequence 1 is a list that contains 1"),
        ({"w": {"x": {"y": object()}}}, "feature 'w:x:y' of token 1 in sequence 1"),
        (["a", None], "token 1 of sequence 1 is a list of names that contains None"),
        (b"a", "token 1 of sequence 1 is b'a'"),
        (None, "token 1 of sequence 1 is None"),
        ({"w": 1.0, 3: 2.0}, "names of features must be strings"),
    ],
)
def test_values_that_are_no_features_are_refused_by_name(token, match):
    X, y = [[{"w": "x"}], [{"w": "y"}, token]], [["A"], ["B", "A"]]
    with pytest.raises(TypeError, match=match):
        SequenceTagger().fit(X, y)
    if "must be strings" not in match:
        with pytest.raises(TypeError, match=match):
            SequenceTagger().fit([[{"w": "x"}, {"w": "y"}]], [["A", "B"]]).predict(X)


NESTED = [
    {"word": {"lower": 1.0, "suffix": {"ing", "ng"}}},
    {"p": {"q": {"r": "s", "t": 3.5}, "u": True, "v": False}, "n": 2},
    {"p": {"q": ["x", "y"], "none": {}, "empty": []}, "word": {"lower": 0.5}},
]


def test_nested_dicts_are_flattened_as_python_crfsuite_does():
    tagger = SequenceTagger().fit([NESTED], [["A", "B", "C"]])
    names = tagger.vectorizer_.feature_names_
    crfsuite = pytest.importorskip("pycrfsuite")
    expected = crfsuite.ItemSequence(NESTED).items()
    assert sorted(names) == sorted({name for token in expected for name in token})
    assert tagger.predict([NESTED]) == tagger.predict([expected]) == [["A", "B", "C"]]
    flat = SequenceTagger().fit([expected], [["A", "B", "C"]])
    np.testing.assert_array_equal(tagger.weights_, flat.weights_)


def test_numbers_of_every_kind_are_values():
    values = [np.float32(0.5), np.int64(2), np.bool_(True), Tensor(0.25), 3, True, 0.5]
    X = [[{"v": v, "w": str(i)} for i, v in enumerate(values)]]
    y = [list(range(len(values)))]
    plain = [[{"v": float(v), "w": str(i)} for i, v in enumerate(values)]]
    np.testing.assert_array_equal(
        SequenceTagger().fit(X, y).weights_, SequenceTagger().fit(plain, y).weights_
    )


# -- transition constraints ------------------------------------------------------------------------

X3, Y3 = [np.eye(3), np.eye(3)[::-1]], [["D", "N", "V"], ["V", "N", "D"]]


@pytest.mark.parametrize(
    ("forbidden", "match"),
    [
        ([("D", "VERB")], r"contains the label 'VERB' in \('D', 'VERB'\).*labels are 'D', 'N', 'V'"),
        ([(None, "n")], "contains the label 'n'"),
        ([(None, None)], "which has no label"),
        ([("N", "D")], r"1 goes from the label 'N' at token 1 to 'D' at token 2, .*contains \('N', 'D'\)"),
        ([(None, "V")], r"sequence 1 has the label 'V' at its start .*contains \(None, 'V'\)"),
        ([("V", None)], r"sequence 0 has the label 'V' at its end .*contains \('V', None\)"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("order", [1, 2])
def test_transition_constraints_are_reported_by_label(forbidden, match, order):
    with pytest.raises(ValueError, match=match):
        SequenceTagger(forbidden_transitions=forbidden, order=order).fit(X3, Y3)


def test_a_sequence_without_a_legal_labeling_is_reported_by_parameter():
    forbidden = [(None, "N"), (None, "V"), ("D", None)]
    tagger = SequenceTagger(forbidden_transitions=forbidden).fit(X3[:1], Y3[:1])
    for call in (tagger.predict, tagger.max_marginals, lambda X: tagger.predict_k_best(X, 2)):
        with pytest.raises(
            ValueError, match=r"forbidden_transitions allows no labeling of sequence 1, .* 1 tok"
        ):
            call([np.eye(3), np.ones((1, 3))])
    with pytest.raises(ValueError, match="forbidden_transitions allows no labeling of sequence 1 "):
        SequenceTagger(forbidden_transitions=forbidden, partial="complete").fit(
            [*X3[:1], np.ones((1, 3))], [*Y3[:1], [None]]
        )


@pytest.mark.parametrize(
    "empty", [[], np.empty(0), np.empty((0, 0)), np.empty((0, 2)), sp.csr_array((0, 2))]
)
def test_sequences_without_tokens_have_no_labels(empty):
    tagger = SequenceTagger().fit(np.eye(2), ["a", "b"], lengths=[1, 1])
    assert tagger.predict(empty, lengths=[]) == []
    assert tagger.predict(empty, lengths=[0, 0]) == []  # of all tokens in one list
    assert tagger.predict([np.eye(2), empty]) == [["a", "b"], []]
    assert tagger.predict([empty, empty]) == [[], []]
    with pytest.raises(ValueError, match="3 features"):
        tagger.predict(np.empty((0, 3)), lengths=[0])
