"""Sphinx configuration. ``sphinx-build -W --keep-going docs docs/_build/html`` builds the site."""

import os
import sys
from pathlib import Path

import structinv

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
import api_links  # noqa: E402

os.environ.setdefault("MPLBACKEND", "agg")

project = "structinv"
author = "structinv developers"
copyright = f"2026, {author}"
release = version = structinv.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "sphinxcontrib.typer",
    "sphinx-mathjax-offline",
    "api_links",
    "record_tables",
]
exclude_patterns = ["_build", "**/GALLERY_HEADER.rst"]
templates_path = ["_templates"]
default_role = "py:obj"
# The gallery's functions in this configuration have no equal values in the next process.
suppress_warnings = ["config.cache"]

myst_enable_extensions = [
    "attrs_block",
    "attrs_inline",
    "colon_fence",
    "deflist",
    "dollarmath",
]
myst_heading_anchors = 4

autosummary_generate = True
autosummary_context = {"own_methods": api_links.own_methods}
# numpydoc has the types, in words.
autodoc_typehints = "none"
# Methods are listed by name below their class.
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
# All but what Ruff formats, a long description, and what `tests/paths/test_docstrings.py` checks:
# examples and related names of classes and functions, inherited docstrings, and parameters, which are
# attributes of results.
numpydoc_validation_checks = {
    "all",
    "GL01",
    "GL02",
    "GL03",
    "ES01",
    "EX01",
    "SA01",
    "GL08",
    "PR01",
}

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"

html_theme = "pydata_sphinx_theme"
html_title = "structinv"
html_static_path = ["_static"]
html_css_files = ["structinv.css"]
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
html_show_sourcelink = False
html_sidebars = {"index": []}
html_theme_options = {
    "check_switcher": False,
    "header_links_before_dropdown": 5,
    "navigation_with_keys": False,
    "show_nav_level": 1,
    "show_toc_level": 2,
    "logo": {"text": "structinv", "alt_text": "structinv, home page"},
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "secondary_sidebar_items": {
        "**": ["page-toc", "sg_download_links"],
        "index": [],
        "evidence/index": [],
    },
}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/plot_",
    "subsection_order": [
        "../examples/certificates",
        "../examples/adversaries",
        "../examples/symmetries",
        "../examples/structured",
        "../examples/practice",
        "../examples/extending",
    ],
    "backreferences_dir": "api/backreferences",
    "doc_module": ("structinv",),
    "reference_url": {"structinv": None},
    "reset_modules": ("gallery_style.reset",),
    "abort_on_example_error": True,
    "parallel": 2,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "download_all_examples": False,
    "min_reported_time": 2,
    # The page of times loads scripts from a network.
    "write_computation_times": False,
}


def setup(app):
    """Allow parallel reading: this extension only copies files at the end of a build."""
    app.extensions["sphinx-mathjax-offline"].parallel_read_safe = True
