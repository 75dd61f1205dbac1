"""maxmargin plan: what it prints follows from the manifest, the measurement, and the options."""

from __future__ import annotations

import numpy as np
import pytest

from maxmargin import data
from maxmargin.command_line import main
from maxmargin.command_line.planning import plan


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / "rows"
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200_000, 20)).astype(np.float32)
    data.write(path, [(X, np.where(X[:, 0] > 0, 1, -1))])
    return path


def test_costs_follow_from_the_data_and_the_cluster(folder):
    rows = data.open(folder)
    one, many = plan(rows, 1, 1.0, 1e9), plan(rows, 8, 1.0, 1e9)
    assert one.n_shards == many.n_shards == len(data.shard_bounds(200_000, 4_000_000, 21)) - 1
    assert one.page_cache == 200_000 * 20 * 4
    assert many.page_cache == one.page_cache / 8
    assert (
        one.worker - many.worker >= 16 * 200_000 * 7 / 8
    )  # scores: shards of so few rows hold them
    products = {p.rounds[0].what: p.rounds[0] for p in (one, many)}["products and losses"]
    assert products.to_machine == 200 + 8 * 21
    assert many.rounds[1].from_machine == 2 * 8 * 21
    # eight machines share the work; empty rounds take longer
    assert many.rounds[0].seconds < one.rounds[0].seconds
    assert plan(rows, 1000, 1.0, 1e9).rounds[0].seconds > many.rounds[0].seconds
    assert plan(rows, 8, 1.0, 1e3).seconds > many.seconds + 0.4  # a slow network


def test_it_prints_memory_bytes_and_seconds(folder, capsys):
    assert main(["plan", str(folder), "--machines", "4", "--cpus", "2", "--rounds", "100"]) == 0
    out = capsys.readouterr().out
    for text in (
        "200,000 samples, 20 features, 4,000,000 entries",
        "4 machines, 2 CPUs and 10 Gbit/s each",
        "memory of a worker",
        "memory of the driver",
        "bytes to a machine",
        "an iteration: ",
        "100 rounds: ",
    ):
        assert text in out


def test_wrong_arguments(folder, capsys):
    assert main(["plan", str(folder), "--machines", "0"]) == 2
    assert "--machines 0: it must be positive" in capsys.readouterr().err
