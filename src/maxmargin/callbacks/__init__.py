"""Callbacks: callables that receive the record of each iteration. If one returns True, the fit stops.

A callback may also have these methods. Estimators call them.

``on_oracle(done, total)``
    The number of examples that an expensive oracle has finished in the current pass.
``on_estimator(record, current)``
    In place of the call with the record: ``current()`` returns a copy of the estimator with the best weights
    found so far, which can predict. If it returns True, the fit stops.
``on_end(estimator)``
    The fit has ended, and its attributes are stored.
"""

from __future__ import annotations

from maxmargin.callbacks.cells import CellRecord
from maxmargin.callbacks.json_lines import JsonLines
from maxmargin.callbacks.line import ProgressLine
from maxmargin.callbacks.log import Log
from maxmargin.callbacks.validation_score import ValidationScore

__all__ = ["CellRecord", "JsonLines", "Log", "ProgressLine", "ValidationScore"]
