"""Engines: they hold the shards of the data, call methods on them and add up the results."""

from maxmargin.core.engine import Engine, Handle, SerialEngine, shard_method
from maxmargin.engines.choice import make_engine, opened, worker_count
from maxmargin.engines.processes import ProcessEngine
from maxmargin.engines.ray import RayEngine
from maxmargin.engines.threads import ThreadEngine

__all__ = [
    "Engine",
    "Handle",
    "ProcessEngine",
    "RayEngine",
    "SerialEngine",
    "ThreadEngine",
    "make_engine",
    "opened",
    "shard_method",
    "worker_count",
]
