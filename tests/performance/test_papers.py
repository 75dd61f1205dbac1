"""The rows of "The papers, re-run": a quick run gives the counts that the papers promise, on any machine."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.data import datasets, require

ROOT = Path(__file__).resolve().parents[2]
QUICK = ROOT / "benchmarks" / "results" / "quick" / "papers"


def figures(name):
    return json.loads((QUICK / f"{name}.json").read_text(encoding="utf-8"))["figures"]


def by(lines, name, **keys):
    kept = [line for line in lines if all(line[k] == v for k, v in keys.items())]
    return {line[name]: line for line in kept}


def run(*arguments):
    command = [sys.executable, "-m", "benchmarks.papers", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.fixture(scope="module")
def quick():
    """One run of all rows on tiny data."""
    for path in DATA:
        require(datasets.find, path)
    done = run("--quick", "--fresh")
    assert done.returncode == 0, done.stderr
    return done.stdout


DATA = (
    "classification/covtype.npz",
    "nlp/conll2000.zip",
    "nlp/gum_constituency",
    "classification/a9a.xz",
    "text/reuters_lasvm.trn.xz",
    "images/mnist",
)


@pytest.mark.data
@pytest.mark.nightly
def test_every_claim_has_a_verdict(quick):
    from benchmarks.papers.__main__ import all_rows

    verdicts = {
        name: json.loads((QUICK / f"{name}.json").read_text())["verdict"] for name in all_rows()
    }
    assert len(verdicts) >= 20
    assert set(verdicts.values()) <= {"holds", "differs", "other size"}


@pytest.mark.data
@pytest.mark.nightly
@pytest.mark.parametrize("task", ["multiclass", "tagging", "parsing"])
def test_a_cache_saves_oracle_calls_and_one_slack_has_few_support_vectors(quick, task):
    lines = figures(f"jfy-table-1-{task}")
    for n in {line["n"] for line in lines}:
        at = by(lines, "method", n=n)
        assert all(line["finished"] for line in at.values())
        assert at["1-slack + cache"]["passes"] < at["1-slack"]["passes"]
        assert at["1-slack"]["passes"] == at["1-slack"]["iterations"] + 1
    many = by(figures("jfy-table-1-multiclass"), "method", n=150)
    assert many["1-slack"]["support"] < many["n-slack 2009"]["support"]


@pytest.mark.data
@pytest.mark.nightly
def test_a_cache_of_five_is_enough(quick):
    passes = by(figures("jfy-figure-6"), "f")
    assert passes[5]["passes"] <= passes[1]["passes"] < passes[0]["passes"]


@pytest.mark.data
@pytest.mark.nightly
@pytest.mark.parametrize("theorem", [5, 6])
def test_iterations_are_below_the_theorems(quick, theorem):
    lines = figures(f"jfy-theorem-{theorem}")
    assert all(line["iterations"] <= line["bound"] for line in lines)


@pytest.mark.data
@pytest.mark.nightly
def test_the_line_search_saves_iterations(quick):
    lines = by(figures("oca-table-3"), "program")
    assert lines["OCA"]["iterations"] < lines["CPA"]["iterations"]
    assert lines["OCA"]["F"] <= lines["CPA"]["F"] * (1 + 2e-3)


def test_the_page_has_every_claim_once_in_a_table_and_once_below():
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("draw_papers", ROOT / "tools" / "draw_papers.py")
    tool = module_from_spec(spec)
    spec.loader.exec_module(tool)
    claims = tool.load()
    made = "\n".join(tool.page(claims))
    assert len(claims) > 40
    for claim in claims:
        name = f"paper_{claim['id'].replace('-', '_')}"
        assert made.count(f":ref:`{claim['number']} <{name}>`") == 1
        assert made.count(f".. _{name}:") == 1
    assert "not run yet:" not in made, "a claim has no stored figures"


def test_a_row_is_old_if_the_sources_that_it_measures_have_changed(tmp_path):
    from benchmarks.papers.record import stale

    now = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    assert not stale({"commit": now, "sources": ["solvers"]})
    assert stale({"commit": "0" * 40, "sources": ["solvers"]})  # a commit that is not there


def test_a_claim_that_fails_at_a_small_size_is_not_called_wrong():
    from benchmarks.papers.record import judged

    assert judged(False, "", "", "100", far=True).verdict == "other size"
    assert judged(False, "", "", "522,911").verdict == "differs"
    assert judged(True, "", "", "100", far=True).reason == ""


def test_the_automatic_choice_is_judged_by_the_better_candidate():
    from benchmarks.papers.table_3 import judge_choices

    line = {"set": "a", "rows": 100, "C": 1.0, "OCA": 2.0, "dual coordinates": 1.0}
    assert judge_choices([{**line, "LinearSVC": 1.4}]).verdict == "holds"
    slow = judge_choices([{**line, "LinearSVC": 1.6}])
    assert slow.verdict == "differs"
    assert slow.today == "worse"
    tiny = {"LinearSVC": 0.009, "dual coordinates": 0.001}
    assert judge_choices([{**line, **tiny}]).verdict == "holds"


class Fits:
    """A stand-in for stored fits: every one is made, and its name is noted."""

    def __init__(self):
        self.names = []

    def inline(self, name, work):
        self.names.append(name)
        return work()


@pytest.mark.parametrize(
    ("seconds", "sizes"),
    [
        ({1: 1.0, 10: 200.0, 100: 1.0}, [1, 10]),  # the second fit is cut off
        ({1: 1.0, 10: 20.0, 100: 1.0}, [1, 10]),  # the third one would be
        ({1: 1.0, 10: 10.0, 100: 100.0}, [1, 10, 100]),
    ],
)
def test_a_method_is_not_run_where_it_would_be_cut_off(seconds, sizes):
    from benchmarks.papers.structured import LIMIT, growing

    fits = Fits()
    cells = growing(
        fits,
        tuple(seconds),
        "{n} rows",
        lambda n: {"n": n, "seconds": seconds[n], "finished": seconds[n] < LIMIT},
    )
    assert [cell["n"] for cell in cells] == sizes
    assert fits.names == [f"{n} rows" for n in sizes]


def line(task, method, n, seconds, finished=True, **more):
    return {"task": task, "method": method, "n": n, "seconds": seconds, "finished": finished} | more


def test_methods_are_compared_at_the_largest_size_at_which_all_of_them_end():
    from benchmarks.papers.jfy import is_far, together

    lines = [line("tagging", "1-slack", n, 1.0) for n in (450, 900, 2700)]
    lines += [line("tagging", "n-slack", n, 150.0, n < 2700) for n in (450, 900, 2700)]
    assert [f["n"] for f in together(lines, "tagging", "1-slack", "n-slack")] == [900, 900]
    assert together(lines, "tagging", "1-slack", "default") == []
    assert is_far({"tagging": 900})
    assert not is_far({"tagging": 8936, "parsing": 3899})


def test_rules_accept_methods_that_were_not_run_at_every_size():
    from benchmarks.papers.jfy import figure_1, judge_cache, n_slack

    lines = [
        line(task, method, n, n / 100)
        for task in ("multiclass", "tagging", "parsing")
        for method in ("1-slack", "1-slack + cache")
        for n in (450, 900)
    ]
    assert figure_1(lines).verdict == "holds"
    assert judge_cache(lines).verdict == "other size"  # as fast with a cache as without
    assert n_slack(lines).verdict == "not run yet"
    lines += [line("multiclass", "n-slack 2009", n, n**1.5) for n in (450, 900)]
    found = n_slack(lines)
    assert found.verdict == "holds"
    assert "1.50 (n = 450 to 900)" in found.figure


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script")
def test_what_a_program_prints_is_read_also_if_it_was_stopped(tmp_path, monkeypatch):
    from benchmarks.papers import programs

    lines = [
        "Iter 1: ..*(NumConst=1, SV=1, CEps=2.0, QPEps=0.0)",
        "Iter 2: ..(NumConst=2, SV=2, CEps=0.1, QPEps=0.0)",
    ]
    last = [
        "Dual objective value: dval=1.5",
        "Number of calls to 'find_most_violated_constraint': 20",
        "Runtime in cpu-seconds: 0.25 (90.00% for QP, 1.00% for Argmax)",
    ]
    program = tmp_path / "program"
    monkeypatch.setenv("MAXMARGIN_SVM_HMM", str(program))
    for text in (lines, lines + last):
        echo = "\n".join(f'echo "{one}"' for one in text)
        program.write_text(f'#!/bin/sh\n{echo}\nfor f; do :; done\necho weights > "$f"\n')
        program.chmod(0o755)
        found, model = programs.run("tagging", tmp_path / "rows", [])
        assert (found["iterations"], found["support"]) == (2, 2)
    assert model == "weights\n"
    assert (found["seconds"], found["calls"], found["dual"], found["qp %"]) == (0.25, 20, 1.5, 90)


def test_an_unknown_row_is_an_error_that_lists_the_rows():
    done = run("--only", "no-such-row")
    assert done.returncode == 2
    assert "no row is called no-such-row" in done.stderr
    assert "jfy-figure-6" in done.stderr
