"""Section about worst-case margins."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..certificates.certificate import Certificate
from .pictures import COLORS, picture
from .section import Section, share
from .subject import Subject


def margins(subject: Subject, certificate: Certificate) -> Section:
    """Return the section about margins."""
    _, units = subject.unit
    clean = subject.certificate(subject.unperturbed).attacked
    close = (certificate.margins > 0) & (certificate.margins < 0.1 * np.median(np.abs(clean)))
    groups = {"without perturbations": clean}
    if subject.perturbs:
        groups["worst case"] = certificate.margins

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        finite = [values[np.isfinite(values)] for values in groups.values()]
        edges = np.histogram_bin_edges(np.concatenate([*finite, [0.0]]), bins=25)
        for values, name, color in zip(finite, groups, COLORS, strict=False):
            axes.hist(values, edges, histtype="stepfilled", label=name, ec=color, fc=(color, 0.3))
        axes.axvline(0.0, color=axes.xaxis.label.get_color(), linewidth=1.0)
        axes.set(xlabel="margin", ylabel=f"number of {units}")
        axes.locator_params(axis="y", integer=True)
        axes.legend()

    content = [
        "The margin of a sample is the score of its true label minus the largest other score. A "
        "positive worst-case margin is a certificate. Scores are not probabilities. Their scale depends "
        "on C and on the features.",
        picture(
            draw,
            f"{share(certificate.correct)} of the worst-case margins are above 0, and "
            f"{share(clean > 0)} of the margins without perturbations.",
        ),
        f"{share(close)} of the {units} have a certificate with a small margin, below a tenth of the "
        "median absolute margin without perturbations.",
    ]
    return Section("margins", "Margins", content)
