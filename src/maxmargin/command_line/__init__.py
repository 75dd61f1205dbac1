"""The command ``maxmargin``, which is also ``python -m maxmargin``.

``main`` chooses one of ``commands``. ``examples`` and ``tables`` read their input through
:mod:`maxmargin.data`. ``models`` makes the parameters of the estimators options of ``fit`` and ``cv``.
"""

from maxmargin.command_line.main import main

__all__ = ["main"]
