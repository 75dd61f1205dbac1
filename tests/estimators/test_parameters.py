"""A parameter with a value that it cannot have is refused by its name: by fit, and by load."""

import numpy as np
import pytest
from tests.latent_tasks import Bags
from tests.persistence.test_damaged_files import joined, parts
from tests.tiny_tasks import TinyMulticlass

import maxmargin
from maxmargin import LatentStructuredSVM, StructuredSVM, StructuredSVMCV
from maxmargin.estimators.constraints import SHARED
from maxmargin.estimators.parameters import _rules

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3))
Y = np.where(X[:, 0] > 0, 1, -1)
WORDS = [[["a"], ["b"]], [["b"], ["a"]]] * 5, [["A", "B"], ["B", "A"]] * 5

#: for every estimator: the arguments of its constructor, and those of fit
ESTIMATORS = dict.fromkeys(
    (
        *("KernelSVC", "KernelSVR", "LinearSVC", "LinearSVCCV", "LinearSVR"),
        *("LogisticRegression", "MeasureSVC"),
        *("OneClassSVM", "OrdinalSVC", "RankSVM"),
    ),
    ((), (X, Y)),
) | {
    "GrammarParser": ((), (None, ["(S (N a) (V b))"])),
    "GraphLabeler": ((), ([(X[:2], [[0, 1]])], [[0, 1]])),
    "LatentStructuredSVM": ((Bags(),), ([X[:3], X[3:6]], [0, 1])),
    "SequenceTagger": ((), WORDS),
    "SequenceTaggerCV": ((), WORDS),
    "StructuredSVM": ((TinyMulticlass(),), (list(X), X.argmax(axis=1).tolist())),
    "StructuredSVMCV": ((TinyMulticlass(),), (list(X), X.argmax(axis=1).tolist())),
}
CLASSES = {"LinearSVC": {"classes": [-1, 1]}, "SequenceTagger": {"classes": ["A", "B"]}}
POSITIVE = (0.0, -1.0, float("nan"), float("inf"), True, "1", None, [1.0])
INTEGER = (-5, 10.5, True, "2")
#: values that a parameter cannot have, in any estimator
WRONG = {
    "penalty": ("l1", "elasticnet", None, 2),
    "l1_ratio": (0.5, 1, "0", True),
    "dual": ("yes", None, 2),
    "C": (*POSITIVE, 1e300, 10**400),
    "Cs": (0, -1, 5.0, True, "x", [], [0.0, 1.0], [1.0, float("nan")], None),
    "tol": (2, 0, -1e-3, float("nan"), True, "x", None),
    "max_iter": INTEGER,
    "max_seconds": (-1, float("nan"), True, "1"),
    "n_jobs": (0, 1.5, True, "2"),
    "random_state": (-1, 0.5, True, "a"),
    "callbacks": (print, "print", ["print"], 1),
    "verbose": (-1, "yes", 0.5, None),
    "checkpoint": (1, True),
    "solver": ("newton", None, 1),
    "engine": (5, "thread"),
    "loss": ("other", None, 1),
    "measure": ("other", None, 1),
    "multi_class": ("other", None),
    "thresholds": ("some", None),
    "metric": ("f1", None, 1),
    "class_weight": ("other", [1.0, 2.0]),
    "class_weights": ("balanced", [], {0: 1.0}, ["other"]),
    "cost": ("other", 1.0, [0.0, 1.0]),
    "prior": (1.0, "around"),
    "fixed": ([0, 1], 1),
    "nonnegative": (1, "ab"),
    "nonpositive": (1, "ab"),
    "kernel": ("cubic", 1),
    "kernel_method": ("exact", None, 1),
    "method": ("fast", None, 1),
    "gamma": ("large", None, -1.0, float("inf"), True),
    "degree": INTEGER,
    "coef0": ("x", None, float("nan"), True),
    "memory": (-1, "all", None),
    "max_kernel_values": (-1, "all", None),
    "cache_size": POSITIVE,
    "probability": (True, "no", None),
    "quantile": (0, 1.0, float("nan"), "x", True, None, [0.9, 0.1], []),
    "epsilon": (-1.0, float("nan"), "x", True),
    "nu": (0.0, 1.1, "x", True),
    "beta": POSITIVE,
    "k": (0, 2.5, "3", True),
    "rescaling": ("both", None),
    "oracle": ("slow", None),
    "decision_function_shape": ("both", None),
    "pair_weight": ("other", None, 1.0),
    "query_weight": ("other", None),
    "intercept_scaling": POSITIVE,
    "max_support": (0, 0.5, None, True),
    "cv": (1, 2.5, "x", True),
    "scoring": (1, ["accuracy", "f1"]),
    "order": (0, 3, "1", True),
    "partial": ("some", True),
    "n_hashed": (0, 1.5, "x", True),
    "min_count": (0, 1.5, None, True),
    "forbidden_transitions": ("other", 1),
    "edges": ("some", None),
    "inference": ("guess", None),
    "wrong_cost": (-1.0, float("nan"), "x", True),
    "horizontal": INTEGER,
    "beam": (0, 1.5, True),
    "max_exact_length": INTEGER,
    **dict.fromkeys(
        (
            *("fit_intercept", "penalize_intercept", "warm_start", "keep_duals", "refit", "prune"),
            *("shrinking", "break_ties"),
            *("parents", "attributes"),
        ),
        ("no", None, 1),
    ),
}


def parameters():
    for name in ESTIMATORS:
        for parameter in getattr(maxmargin, name)._get_param_names():
            yield name, parameter


def test_every_estimator_and_every_parameter_is_here():
    public = [getattr(maxmargin, name) for name in maxmargin.__all__]
    found = {own.__name__ for own in public if hasattr(own, "_get_param_names")}
    assert found - {"GaussianPrior"} == set(ESTIMATORS)
    assert {parameter for _, parameter in parameters()} - {"task"} == set(WRONG)
    assert set(SHARED) <= set(WRONG)


@pytest.mark.parametrize(("name", "parameter"), [own for own in parameters() if own[1] != "task"])
def test_a_wrong_value_is_refused_by_name(name, parameter):
    given, data = ESTIMATORS[name]
    for value in WRONG[parameter]:
        estimator = getattr(maxmargin, name)(*given).set_params(**{parameter: value})
        with pytest.raises(ValueError, match=rf"{parameter}=.*: use ") as error:
            estimator.fit(*data)
        assert len(str(error.value)) < 700
        if hasattr(estimator, "partial_fit"):
            with pytest.raises(ValueError, match=rf"{parameter}=.*: use "):
                estimator.partial_fit(*data, **CLASSES.get(name, {}))


def test_defaults_are_allowed():
    """They are not checked by fit."""
    for name in ESTIMATORS:
        for parameter, (default, rule) in _rules(getattr(maxmargin, name)).items():
            if rule is not None:
                rule.check(parameter, default, name)


@pytest.mark.parametrize(
    ("make", "params"),
    [
        (maxmargin.svc_path, {"Cs": [1.0], "max_iter": -5}),
        (maxmargin.svc_path, {"Cs": []}),
        (maxmargin.svc_path, {"Cs": ["x"]}),
        (maxmargin.svc_path, {"Cs": [1e300]}),
    ],
)
def test_paths_check_them_too(make, params):
    with pytest.raises(ValueError, match=rf"{list(params)[-1]}=.*: use "):
        make(X, Y, **params)


def test_a_structured_path_checks_them_before_any_work():
    with pytest.raises(ValueError, match="oracle='slow': use"):
        maxmargin.structured_path(
            TinyMulticlass(), list(X), X.argmax(axis=1).tolist(), Cs=[1.0], oracle="slow"
        )


@pytest.mark.parametrize("kind", [np.random.default_rng, np.random.RandomState])
def test_generators_of_numpy_are_random_states(kind):
    task = TinyMulticlass()
    for make in (
        lambda state: StructuredSVM(task, random_state=state),
        lambda state: StructuredSVMCV(task, random_state=state, cv=2, Cs=[1.0]),
    ):
        fits = [make(kind(3)).fit(list(X), X.argmax(axis=1).tolist()) for _ in range(2)]
        np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
    again = maxmargin.LinearSVC(random_state=kind(3)).fit(X, Y)
    assert again.converged_


def test_a_latent_fit_has_no_stopping_rule():
    with pytest.raises(ValueError, match=r"tol=.*: use a relative tolerance"):
        LatentStructuredSVM(Bags(), tol=maxmargin.solvers.AbsoluteGap(1.0)).fit(
            [X[:3], X[3:6]], [0, 1]
        )


# -- labels ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["LinearSVC", "KernelSVC", "MeasureSVC", "LinearSVCCV"])
@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (["a", None], "None (no label)"),
        ([1, None], "None (no label)"),
        (["a", 1], "1 (a number)"),
        ([1.5, "b"], "'b' (a string)"),
    ],
)
def test_labels_are_of_one_kind(name, labels, said):
    """NumPy makes strings of the numbers in a list of both, so 1 was learned as '1'."""
    for y in (labels * 15, np.array(labels * 15, dtype=object)):
        with pytest.raises(ValueError, match=r"y contains .*only numbers or only strings") as error:
            getattr(maxmargin, name)().fit(X, y)
        assert said in str(error.value)
    if name == "LinearSVC":
        with pytest.raises(ValueError, match="classes contains"):
            maxmargin.LinearSVC().partial_fit(X, Y, classes=labels)


@pytest.mark.parametrize("name", ["LinearSVR", "KernelSVR", "RankSVM"])
@pytest.mark.parametrize("y", [["a", "b"] * 15, ["1", "2"] * 15, [1.0, None] * 15])
def test_targets_are_numbers(name, y):
    for given in (y, np.array(y), np.array(y, dtype=object)):
        with pytest.raises(ValueError, match=r"y contains .*must contain only numbers"):
            getattr(maxmargin, name)().fit(X, given)
    if name == "RankSVM":
        with pytest.raises(ValueError, match=r"y contains .*must contain only numbers"):
            maxmargin.RankSVM().fit(X, Y).score(X, y)


# -- methods that depend on parameters -------------------------------------------------------------


def test_a_missing_method_says_what_to_do():
    with pytest.raises(AttributeError, match=r"'partial_fit': .*loss='logistic'.*use fit"):
        maxmargin.LinearSVC(loss="logistic").partial_fit(X, Y, classes=[-1, 1])
    with pytest.raises(AttributeError, match=r"'partial_fit': .*set penalize_intercept=True"):
        maxmargin.LinearSVR(penalize_intercept=False).partial_fit(X, X[:, 0])
    tagger = maxmargin.SequenceTagger().fit(*WORDS)
    for name in ("predict_marginals", "log_probability"):
        with pytest.raises(AttributeError, match=rf"{name!r}: .*use loss='logistic'"):
            getattr(tagger, name)
        assert not hasattr(tagger, name)


# -- model files -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["LinearSVC", "KernelSVC", "RankSVM"])
def test_a_model_file_is_refused_by_the_same_constraints(name, tmp_path):
    path = tmp_path / "model.safetensors"
    estimator = getattr(maxmargin, name)().fit(X, Y).save(path)
    saved = path.read_bytes()
    for parameter in estimator.get_params():
        if parameter in ("callbacks", "checkpoint", "engine"):  # not stored, or only by name
            continue
        for value in WRONG[parameter]:
            if not isinstance(value, str | float | list | None) or value != value:
                continue
            header, tensors = parts(saved)
            header["params"][parameter] = value
            path.write_bytes(joined(header, tensors))
            with pytest.raises(maxmargin.persistence.ModelFileError, match=f"{parameter}="):
                maxmargin.load(path)


def test_the_package_lists_public_names_only():
    names = dir(maxmargin)
    assert {"LinearSVC", "solvers", "__version__"} <= set(names)
    assert not {"Any", "TYPE_CHECKING", "import_module", "annotations", "register_writer"} & set(
        names
    )
    assert all(name == "__version__" or not name.startswith("_") for name in names)
    assert all(hasattr(maxmargin, name) for name in names)
