"""The command ``maxmargin``, which is also ``python -m maxmargin``.

``commands`` has the subcommands, ``readers`` and ``writers`` the formats of the data, ``model_formats`` those
of the models.
"""

from maxmargin.command_line.main import main

__all__ = ["main"]
