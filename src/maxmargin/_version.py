"""The version of the library, written here only: pyproject.toml, the documentation and files read it."""

__version__ = "0.1.0.dev0"
