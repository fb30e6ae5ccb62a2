"""Pictures of a report: figures as SVG, in the colors of the page."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from io import StringIO
from typing import Any

from ..utils.html import Html, escaped

# Each color is readable on white and on black.
COLORS = ("#0072B2", "#D55E00")
# It stands for the color of the page's text, which matplotlib does not know.
_INK = "#010203"
_STYLE: dict[str, Any] = {
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor"), _INK),
    **dict.fromkeys(("xtick.color", "ytick.color"), _INK),
    **dict.fromkeys(("figure.facecolor", "axes.facecolor"), "none"),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
    **{"svg.fonttype": "none", "image.composite_image": False, "savefig.dpi": 200},
    # Dollar signs of labels are no formulas.
    "text.parse_math": False,
}
# Without them, the file depends on the data only.
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


def picture(draw: Callable[[Any], object], alt: str, width: float = 5.0, height: float = 3.0) -> Html:
    """Return the figure that `draw` fills, as an SVG element of this size in inches."""
    import matplotlib.style
    from matplotlib.figure import Figure

    stream = StringIO()
    style = matplotlib.style.context(["default", _STYLE, {"svg.hashsalt": alt}])
    with style, warnings.catch_warnings():
        # Browsers have the letters that a font of matplotlib lacks.
        warnings.filterwarnings("ignore", "Glyph")
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure)
        figure.savefig(stream, format="svg", metadata=_NO_METADATA)
    _, start, rest = stream.getvalue().partition("<svg ")
    # Identifiers of groups would repeat in the next picture.
    content = re.sub(r'<g id="\w+_\d+">', "<g>", rest).replace(_INK, "currentColor")
    return Html(f'{start}role="img" aria-label="{escaped(alt)}" {content}')
