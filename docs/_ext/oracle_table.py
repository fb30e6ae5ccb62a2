"""Table of all oracles in guide/oracles.md, from the attributes of their classes.

``python docs/_ext/oracle_table.py`` writes the table into the page. A test compares both.
"""

import inspect
from pathlib import Path

from structinv.oracles import REGISTRY, InvarianceOracle

PAGE = Path(__file__).parents[1] / "guide" / "oracles.md"
BEGIN, END = "<!-- oracle table: begin -->\n", "<!-- oracle table: end -->\n"
CHANGES = {
    "identity": "nothing",
    "fscale": "up to K features, each rescaled by a factor between two limits",
    "fdrop": "up to K features, set to 0",
    "fadd": "up to K absent features, added",
    "fedit": "up to K edits of several kinds",
    "unit_length": "the same edits, then division by the length of the row",
    "box": "every feature, within a radius",
    "ellipsoid": "the vector, within a ball or an ellipsoid",
    "tangent": "the vector, along given directions",
    "segment": "the gain of a signal",
    "offset": "the baseline of a signal",
    "trajectory": "the vector, along a polynomial curve",
    "sampled": "the vector, by a custom function",
    "local_tangents": "the vector, along directions learned from neighbors",
    "shifts": "the position of an image",
    "rotations": "the angle of an image",
    "scalings": "the size of an image",
    "shears": "the slant of an image",
    "flip": "left and right, or top and bottom",
    "permutations": "the order of rows, or of rows and columns",
    "union": "one of two sets, `A \\| B`",
    "compose": "two sets, first B and then A, `A @ B`",
    "only_for": "samples of some labels only",
    "protected": "all features except the named ones",
    "discounted": "the same set, with a lower cost of larger perturbations",
    "shared": "all samples of a structured example, in the same way",
    "budget": "K features of a whole structured example",
    "weighted": "the same list, with probabilities",
}
FLAGS = {"supports_sparse": "sparse", "finite": "list", "additive": "additive", "convex": "convex"}
METHODS = {
    "kernel SVM": ("orbit", "_changes"),
    "tangents": ("tangents",),
    "draws": ("sample",),
}
VIEWS = (*METHODS, "discount")
# Combinations that refuse grades, although they inherit `support` with `rho`.
UNGRADED = ("Budget", "Compose", "Discounted", "Shared")
# Views that an oracle has for some values of its parameters only.
LIMITED = {"permutations": ("kernel SVM", "discount")}


def table():
    """Return a Markdown table with one row per registered oracle."""
    headers = ["Oracle", "Perturbation", *FLAGS.values(), *VIEWS]
    rows = [[f"`{one.__name__}`", CHANGES[name], *_cells(name, one)] for name, one in REGISTRY.items()]
    lines = [headers, ["---"] * 2 + [":-:"] * (len(headers) - 2), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cells(registered, oracle):
    flags = [_flag(inspect.getattr_static(oracle, name)) for name in FLAGS]
    limited = LIMITED.get(registered, ())
    views = ["varies" if view in limited else _view(oracle, view) for view in VIEWS]
    return [*flags, *views]


def _flag(declared):
    """Return "varies" for a property, which depends on parameters or on combined oracles."""
    return "varies" if isinstance(declared, property) else "yes" if declared else ""


def _view(oracle, view):
    defined = any(
        getattr(oracle, name) is not getattr(InvarianceOracle, name) for name in METHODS.get(view, ())
    )
    if view == "discount":
        takes_rho = "rho" in inspect.signature(oracle.support).parameters
        defined = takes_rho and oracle.__name__ not in UNGRADED
    parts = [name for name in inspect.signature(oracle).parameters if name in ("oracle", "left")]
    return "varies" if defined and parts else "yes" if defined else ""


def with_table(text):
    """Replace the text between the marks of the page by the table."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
