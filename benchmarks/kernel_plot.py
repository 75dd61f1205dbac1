"""Time against the number of samples: one small panel per data set."""

from __future__ import annotations

from pathlib import Path

Curve = list[tuple[int, float, bool]]
LABELS = {
    "svc": "SVC (LIBSVM)",
    "exact": "exact, certified 1e-3",
    "nystrom": "nystrom, 1,000 landmarks",
}


def plot(curves: dict[str, dict[str, Curve]], path: Path) -> None:
    """Plot the curves. Hollow points hit the time limit: the true times are larger."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    if not curves:
        return
    figure, axes = plt.subplots(
        1, len(curves), figsize=(2.7 * len(curves), 3.3), sharey=True, squeeze=False
    )
    for axis, (name, lines) in zip(axes[0], curves.items(), strict=True):
        for k, (method, label) in enumerate(LABELS.items()):
            points = sorted(lines.get(method, []))
            axis.plot([p[0] for p in points], [p[1] for p in points], color=f"C{k}", label=label)
            for n, seconds, late in points:
                axis.plot(n, seconds, "o", ms=4, color=f"C{k}", mfc="white" if late else f"C{k}")
        axis.set(title=name, xscale="log", yscale="log", xlabel="rows")
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("CPU seconds of the fit")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncols=len(labels), frameon=False)
    figure.tight_layout(rect=(0, 0, 1, 0.92))
    figure.savefig(path, dpi=110)
    plt.close(figure)
