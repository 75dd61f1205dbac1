"""Tasks that are defined in a notebook or at a prompt, where other processes cannot import them."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any


def needs_value(estimator: Any) -> bool:
    """Whether data for worker processes must include the code of its classes.

    Workers import the main program if it is a file or a module. Otherwise its classes are pickled by
    value, if cloudpickle is installed.
    """
    if estimator.engine != "processes" or estimator.n_jobs in (None, 1) or _importable():
        return False
    if find_spec("cloudpickle") is not None:
        return True
    for name, value in estimator.get_params(deep=False).items():
        own = value if hasattr(value, "__qualname__") else type(value)
        if getattr(own, "__module__", "") == "__main__":
            raise TypeError(
                f"{name}: {own.__qualname__} is defined in a notebook or at a prompt, where the worker "
                "processes of engine='processes' cannot import it. Install cloudpickle (pip install "
                "cloudpickle), define the class in a module, or use engine='threads'."
            )
    return False


def _importable() -> bool:
    main = sys.modules["__main__"]
    return (
        getattr(main, "__file__", None) is not None or getattr(main, "__spec__", None) is not None
    )
