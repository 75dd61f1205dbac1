"""The command ``maxmargin``, which is also ``python -m maxmargin``: one module per subcommand.

A subcommand is a module with two functions: ``add_parser(subparsers)`` adds its arguments, and
``run(arguments)`` does the work and returns the exit code. List it in ``SUBCOMMANDS`` of ``main.py``.
"""

from maxmargin.command_line.main import main

__all__ = ["main"]
