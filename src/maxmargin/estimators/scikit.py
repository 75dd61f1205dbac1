"""The base classes of scikit-learn, with types, which it does not declare.

mypy accepts any argument of a dataclass that has a base class of unknown type.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Self

    class _Tagged:
        def __sklearn_tags__(self) -> Any: ...

    class BaseEstimator(_Tagged):
        n_features_in_: int
        feature_names_in_: Any
        get_metadata_routing: Any
        set_callbacks: Any
        set_fit_request: Any
        set_partial_fit_request: Any
        set_predict_request: Any
        set_score_request: Any

        def __getstate__(self) -> dict[str, Any]: ...
        def _repr_html_inner(self) -> str: ...
        def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]: ...
        @classmethod
        def _get_param_names(cls) -> list[str]: ...
        def get_params(self, deep: bool = True) -> dict[str, Any]: ...
        def set_params(self, **params: Any) -> Self: ...

    class ClassifierMixin(_Tagged):
        def score(self, *args: Any, **options: Any) -> float: ...

    RegressorMixin = ClassifierMixin

    class OutlierMixin(_Tagged):
        def fit_predict(self, X: Any, y: Any = None) -> Any: ...

    class CallbackSupportMixin: ...

    def with_callbacks(method: Any) -> Any: ...

else:
    from sklearn.base import BaseEstimator, ClassifierMixin, OutlierMixin, RegressorMixin  # noqa: F401

    try:  # scikit-learn 1.9 or later
        from sklearn.callback import CallbackSupportMixin, with_callbacks
    except ImportError:  # pragma: no cover
        CallbackSupportMixin, with_callbacks = type("NoCallbacks", (), {}), lambda method: method
