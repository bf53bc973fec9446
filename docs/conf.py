"""The site: `make docs` builds it from the documents in this folder and from docstrings, without network access."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
os.environ.setdefault("JAX_PLATFORMS", "cpu")  # the package is imported for its docstrings alone
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent / "src")]

import ilbrl  # noqa: E402

project = "ilbrl"
author = "The ilbrl developers"
release = version = ilbrl.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "sphinx_copybutton"]
extensions += ["commands", "docstrings", "notebooks", "pages"]  # ours, in _ext
exclude_patterns = ["results/**", "_ext/**"]
default_role = "py:obj"  # `names` in docstrings lead to what they name, where the site has it

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

autodoc_default_options = {"members": True, "imported-members": True, "undoc-members": True}
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints = "signature"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = "ilbrl"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f5fa8", "color-brand-content": "#1f5fa8"},
    "dark_css_variables": {"color-brand-primary": "#7db4f0", "color-brand-content": "#7db4f0"},
}
copybutton_prompt_text = r"\$ |>>> "
copybutton_prompt_is_regexp = True
