"""Functions that find their precompiled code by the types of the arguments; without it, they compile."""

from __future__ import annotations

import inspect
import logging
import threading
from importlib import import_module
from typing import Any

from maxmargin.compiled.precompiled import arrays, precompiled, spell

_lock = threading.RLock()
_log = logging.getLogger(__name__)
_Dispatcher: Any = precompiled().dispatcher or object


class Function(_Dispatcher):  # type: ignore[misc] # in C
    """A function that is called from Python or mentioned by code that is being compiled."""

    def __init__(self, function: Any, options: dict[str, Any]) -> None:
        self.py_func = self.__wrapped__ = function
        self.options = options
        self.__name__, self.__qualname__ = function.__name__, function.__qualname__
        self.__module__, self.__doc__ = function.__module__, function.__doc__
        self.name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
        self.precompiled = precompiled().functions.get(self.name, {})
        self._compiling: Any = None

    def missing(
        self, key: bytes | None, args: tuple[Any, ...], named: dict[str, Any] | None
    ) -> Any:
        """Called by the base class if ``known`` has no function for the types of these arguments."""
        if named or len(args) < self.py_func.__code__.co_argcount:
            bound = inspect.signature(self.py_func).bind(*args, **(named or {}))
            bound.apply_defaults()
            return self(*bound.args)
        found = self.find(args)
        if key is not None:
            self.known[key] = found
        return found(*args)

    def find(self, args: tuple[Any, ...]) -> Any:
        """The precompiled function, or the one that compiles."""
        types = ",".join(map(spell, args))
        found, marks = self.precompiled.get(types, (None, ()))
        if found is not None and all(
            array.flags.writeable or may_be_read_only
            for array, may_be_read_only in zip(arrays(args), marks, strict=True)
        ):
            return found
        _log.info("compiling %s for %s", self.name, types)
        return self.compiling(types)

    def compiling(self, types: str = "") -> Any:
        """The function as Numba has it: it compiles for the types of each call."""
        from maxmargin.compiled.cache import compile_when_called

        with _lock:
            if self._compiling is None:
                self._compiling = compile_when_called(self.py_func, self.options, types)
        return self._compiling

    @property
    def _numba_type_(self) -> Any:
        """Numba asks for this where code that it compiles mentions the function."""
        return self.compiling()._numba_type_

    def __reduce__(self) -> Any:
        return _named, (self.__module__, self.__qualname__)


def _named(module: str, name: str) -> Any:
    return getattr(import_module(module), name)
