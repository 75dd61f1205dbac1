"""The command ``maxmargin``, which is also ``python -m maxmargin``.

``commands`` has the subcommands, ``readers`` and ``writers`` the formats of the data.
"""

from maxmargin.command_line.main import main

__all__ = ["main"]
