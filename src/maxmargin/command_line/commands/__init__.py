"""One module per subcommand of ``maxmargin``.

A subcommand is a module with two functions: ``add_parser(subparsers)`` adds its arguments, and
``run(arguments)`` does the work and returns the exit code. List it in ``SUBCOMMANDS`` of
:mod:`maxmargin.command_line.main`.
"""
