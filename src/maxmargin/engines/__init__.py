"""Engines: where shards live and how their answers are added."""

from maxmargin.core.engine import Engine, Handle, SerialEngine
from maxmargin.engines.threads import ThreadEngine, make_engine

__all__ = ["Engine", "Handle", "SerialEngine", "ThreadEngine", "make_engine"]
