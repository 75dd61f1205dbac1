"""Engines: where shards live and how their answers are added."""

from maxmargin.engines.base import Engine, Handle, SerialEngine, ThreadEngine, make_engine

__all__ = ["Engine", "Handle", "SerialEngine", "ThreadEngine", "make_engine"]
