"""Sphinx configuration. The build needs no network: no remote fonts, scripts or inventories."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))
os.environ.setdefault("MPLBACKEND", "Agg")

import maxmargin

project = "maxmargin"
author = "The maxmargin developers"
copyright = "2026, The maxmargin developers"
version = release = maxmargin.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "mathml",
]
exclude_patterns = ["_build", "gallery/**/*.ipynb", "gallery/**/*.py", "gallery/**/*.zip"]
templates_path = ["_templates"]
# docstrings write norms as |w|, which reStructuredText would take for a substitution
rst_prolog = r".. |w| replace:: \|w\|"

# -- mathematics: MathML written by docutils, so that pages need no JavaScript from elsewhere
html_math_renderer = "mathml"

# -- API pages
autosummary_generate = True
autodoc_typehints = "none"  # numpydoc sections say it in words
autodoc_member_order = "bysource"
add_module_names = False
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
numpydoc_xref_param_type = False

# -- gallery: every example is run, and one that fails stops the build
TOPICS = ["linear", "metrics", "kernels", "sequences", "structures", "latent", "scale"]
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "remove_config_comments": True,
    "write_computation_times": False,  # that page loads scripts from elsewhere
    "capture_repr": (),
    "plot_gallery": "True",
    "subsection_order": [f"../examples/{topic}" for topic in TOPICS],
    "within_subsection_order": "gallery_order.ReadFirst",
    "default_thumb_file": None,
    "reference_url": {},
    "image_srcset": ["2x"],
}

# -- looks
html_theme = "pydata_sphinx_theme"
html_title = "maxmargin"
html_static_path = ["_static"]
html_css_files = ["maxmargin.css"]
html_js_files = ["copy.js", "sidebar.js"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "navbar_start": ["navbar-logo"],
    "navbar_align": "left",
    "navbar_center": ["group-links"],
    "navbar_end": ["theme-switcher"],
    "show_prev_next": True,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": [], "**": ["groups"]}
html_context = {
    "default_mode": "light",
    # the groups of the front page's toctrees, with the first page of each
    "group_links": [
        ("Start", "quickstart"),
        ("Guides", "linear"),
        ("Scale", "cluster"),
        ("Migrating", "migrating/index"),
        ("Reference", "api"),
        ("Developers", "architecture"),
        ("Notes", "notes/index"),
    ],
}


def skip_inherited(app, what, name, obj, skip, options):
    """Of inherited members show our own only: scikit-learn documents its methods itself."""
    module = getattr(obj, "__module__", None) or getattr(
        getattr(obj, "fget", None), "__module__", None
    )
    if what == "class" and module is not None and not module.startswith("maxmargin"):
        return True
    return skip


def without_figures(app, config):
    """A quick build (-D plot_gallery=0) does not draw the figures of examples that guides show."""
    if config.plot_gallery in (0, "0", False, "False"):
        config.suppress_warnings.append("image.not_readable")


def write_papers(app):
    """The tables of the page "The papers, re-run", of stored figures."""
    tools = Path(__file__).parents[1] / "tools"
    subprocess.run([sys.executable, tools / "draw_papers.py"], check=True)


def setup(app):
    app.connect("builder-inited", write_papers)
    app.connect("autodoc-skip-member", skip_inherited)
    app.connect("config-inited", without_figures)
