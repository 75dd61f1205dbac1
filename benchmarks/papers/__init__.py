"""The four papers behind the library, run again: one row per claim, and a verdict computed from the figures.

``python -m benchmarks.papers [--quick] [--only ID,ID]`` measures and writes ``results/papers/ID.json``;
``python tools/draw_papers.py`` makes the page of the documentation from these files.
"""
