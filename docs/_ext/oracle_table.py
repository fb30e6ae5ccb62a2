"""Tables of all oracles in guide/oracles.md, from the attributes of their classes.

``python docs/_ext/oracle_table.py`` writes the tables into the page. A test compares both.
"""

import inspect
import re
from pathlib import Path

from structinv.oracles import REGISTRY, InvarianceOracle

PAGE = Path(__file__).parents[1] / "guide" / "oracles.md"
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
SINGLE = "Oracle", "Perturbation", "Supports"
COMBINED = "Combination", "Perturbation", "Does not support"
# Combinations that refuse grades, although they inherit `support` with `rho`.
UNGRADED = ("Budget", "Compose", "Discounted", "Shared")
# Views that an oracle has for some values of its parameters only.
LIMITED = {"permutations": ("kernel SVM", "discount")}


def tables():
    """Return Markdown tables with one row per registered oracle: single oracles, and combinations.

    The support of a combination depends on the combined oracles, so its row has what it never supports.
    """
    single, combined = [], []
    for name, oracle in REGISTRY.items():
        cells = dict(zip([*FLAGS.values(), *VIEWS], _cells(name, oracle), strict=True))
        row = f"`{oracle.__name__}`", CHANGES[name]
        if "yes" in cells.values():
            words = {"yes": "{}", "varies": "({})", "": ""}
            parts = [words[cell].format(view) for view, cell in cells.items()]
            single.append((*row, ", ".join(filter(None, parts))))
        else:
            combined.append((*row, ", ".join(view for view, cell in cells.items() if not cell)))
    return [_table(SINGLE, single), _table(COMBINED, combined)]


def _table(headers, rows):
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


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


def with_tables(text):
    """Replace the tables of the page, which have the same headers."""
    for table in tables():
        header = re.escape(table.partition("\n")[0])
        text, n_found = re.subn(
            rf"^{header}\n(?:\|.*\n)*", lambda _, table=table: f"{table}\n", text, flags=re.MULTILINE
        )
        assert n_found == 1, f"the page has {n_found} tables with the header {header}"
    return text


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
