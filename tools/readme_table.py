"""Write the table "Faster, equal, slower" of README, of what was measured.

    python tools/readme_table.py          # after a benchmark was repeated, and tools/draw_benchmarks.py
    python tools/readme_table.py --check  # fail if README has other figures

Reads the substitutions of docs/_benchmark_numbers.inc and the tables in benchmarks/results.
"""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
RESULTS = ROOT / "benchmarks" / "results"
BEGIN = "<!-- made by tools/readme_table.py from benchmarks/results; do not edit -->\n"
END = "<!-- end of the table -->\n"


def read(name: str) -> list[dict[str, str]]:
    with open(RESULTS / f"{name}.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def span(ratios: list[str]) -> str:
    """The least and the largest of some ratios; what was stopped at a limit counts with its limit."""
    values = sorted(float(ratio.lstrip("> ")) for ratio in ratios if ratio not in ("", "–"))
    ends = dict.fromkeys(
        f"{value:.2f}" if value < 1 else f"{value:.1f}" for value in (values[0], values[-1])
    )
    return " to ".join(ends)


def table() -> str:
    """The table in Markdown."""
    numbers = (ROOT / "docs" / "_benchmark_numbers.inc").read_text(encoding="utf-8")
    of = dict(re.findall(r"\|(\w+)\| replace:: (.+)", numbers))
    dense = {(row["sets"], row["loss"]): row for row in read("dense_groups")}
    names = {
        "logistic": "logistic",
        "squared hinge": "squared hinge",
        "crammer-singer": "Crammer-Singer",
    }

    def several(sets: str) -> str:
        rows = {loss: dense[sets, loss] for loss in names}
        means = ", ".join(
            f"{float(rows[loss]['geometric mean']):.2f} ({names[loss]})" for loss in names
        )
        return f"{means}; at worst {min(float(row['worst']) for row in rows.values())}"

    probes: dict[str, list[str]] = {kind: [] for kind in ("newsgroups", "skew", "isotropic")}
    for row in read("probes_fits"):
        if row["scikit-learn / ours"]:
            probes[row["set"].split()[-1]].append(row["scikit-learn / ours"])
    text_rows = [
        row["ratio"]
        for row in read("ordinal_fits")
        if (row["data"], row["thresholds"]) == ("IMDB 1,000", "all")
    ]
    one = (RESULTS / "one_sentence.md").read_text(encoding="utf-8")
    speed = dict(re.findall(r"^\| ([^|]+?) \|.*\| ([\d.]+) \|$", one, re.MULTILINE))
    small = [f"{1 / float(of[f'small_{kind}']):.2f}" for kind in ("svc", "svr", "kernel")]
    rows = [
        "**faster**",
        "linear SVM and Crammer-Singer, beside LIBLINEAR | "
        f"**{of['linear_mean']}**, geometric mean of {of['linear_cells']} settings without "
        f"{of['linear_stopped']} that LIBLINEAR did not finish; "
        f"{of['linear_slower']} slower, at worst {1 / float(of['linear_worst']):.2f} | "
        "LIBLINEAR, for Reuters with a large C",
        "kernel SVM, 20,000 to 100,000 samples, beside LIBSVM | "
        f"**{of['kernel_least']} to {of['kernel_most']}** |",
        "the same, beside oneDAL; both with two threads, wall time | "
        f"**{span([row['oneDAL ratio'] for row in read('kernels_fits')])}**; "
        f"{span([row['oneDAL ratio'] for row in read('kernels_two_threads')])} |",
        "training taggers, with reading, beside crfsuite: L-BFGS; averaged perceptron | "
        f"**{of['conll2000_lbfgs']} and {of['brown_lbfgs']}**; {of['conll2000_ap']} and {of['brown_ap']} |",
        f"several classes, embeddings and MNIST, beside the fastest of scikit-learn | {several('large')} |",
        "logistic regression on vectors beside scikit-learn: 20 newsgroups; skewed spectrum | "
        f"{span(probes['newsgroups'])}; {span(probes['skew'])} |",
        "**equal**",
        f"several classes, digits, iris, wine, beside the fastest of scikit-learn | {several('small')} | "
        "scikit-learn, for small C",
        f"labels of one sentence; of 300; beside crfsuite | {speed['labels, one sentence']}; "
        f"{speed['labels, 300 sentences']} |",
        "**slower**",
        "up to 1,000 samples, beside scikit-learn: classes; regression; kernels | "
        f"at worst {'; '.join(small)} | scikit-learn, if milliseconds count",
        "logistic regression, 100 and 1,000 classes, isotropic vectors, beside scikit-learn | "
        f"{span(probes['isotropic'])} | scikit-learn",
        f"ordered classes, text, all thresholds, beside mord | {span(text_rows)} | mord",
        "L1 penalty; GPU; 100,000 labels | not here | scikit-learn, skglm; cuML; extreme classification",
    ]
    lines = ["task | speed | where it is slower, use", "--- | --- | ---"]
    cells = [row + " | |" if row.startswith("**") else row for row in [*lines, *rows]]
    return "\n".join(f"| {row.removesuffix(' |')} |" for row in cells) + "\n"


def main(arguments: list[str]) -> int:
    text = README.read_text(encoding="utf-8")
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    made = text[:begin] + "\n" + table() + "\n" + text[end:]
    if "--check" in arguments:
        return int(made != text)
    README.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
