"""Print the parameters of all estimators with their defaults, one line per parameter (``*``: required)."""

from __future__ import annotations

import inspect

from sklearn.base import BaseEstimator

import maxmargin


def defaults() -> dict[str, dict[str, str]]:
    """The default of each parameter of each estimator, as text."""
    table: dict[str, dict[str, str]] = {}
    for name in maxmargin.__all__:
        value = getattr(maxmargin, name)
        if isinstance(value, type) and issubclass(value, BaseEstimator):
            for key, parameter in inspect.signature(value).parameters.items():
                required = parameter.default is parameter.empty
                table.setdefault(key, {})[name] = "*" if required else repr(parameter.default)
    return table


def main() -> None:
    """Print the table; estimators with the same default share an entry."""
    for key, by_estimator in sorted(defaults().items(), key=lambda row: (-len(row[1]), row[0])):
        shared: dict[str, list[str]] = {}
        for name, default in by_estimator.items():
            shared.setdefault(default, []).append(name)
        entries = [f"{default} in {', '.join(names)}" for default, names in shared.items()]
        print(f"{key} ({len(by_estimator)}): {'; '.join(entries)}")


if __name__ == "__main__":
    main()
