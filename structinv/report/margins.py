"""Section about scores: worst-case margins, and calibration of probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.calibration import calibration_curve

from ..certificates.certificate import Certificate
from ..utils.html import Html
from ..utils.svg import Line, histogram, line_plot
from .section import Section, share
from .subject import Subject

# Bins of the predicted probability.
_BINS = 10


def margins(subject: Subject, certificate: Certificate) -> Section:
    """Return the section about margins and probabilities."""
    _, units = subject.unit
    clean = subject.certificate(subject.unperturbed).attacked
    close = (certificate.margins > 0) & (certificate.margins < 0.1 * np.median(np.abs(clean)))
    alt = (
        f"{share(certificate.correct)} of the worst-case margins are above 0, and {share(clean > 0)} of "
        "the margins without perturbations."
    )
    groups = {"without perturbations": clean}
    if subject.perturbs:
        groups["worst case"] = certificate.margins
    content: list[str | Html] = [
        "The margin of a sample is the score of its true label minus the largest other score. A "
        "positive worst-case margin is a certificate. Scores are not probabilities. Their scale depends "
        "on C and on the features.",
        Html(histogram(groups, alt, x_label="margin", y_label=f"number of {units}", mark=0.0)),
        f"{share(close)} of the {units} have a certificate with a small margin, below a tenth of the "
        "median absolute margin without perturbations.",
    ]
    probabilities = _probabilities(subject)
    if probabilities is None:
        content.append(
            "The model has no probabilities, so their calibration cannot be tested. "
            "CalibratedClassifierCV of scikit-learn adds probabilities."
        )
    else:
        content += _reliability(subject, probabilities)
    return Section("margins", "Margins and calibration", content)


def _probabilities(subject: Subject) -> np.ndarray | None:
    """Return the probabilities of the second class, or None."""
    model: Any = subject.model
    if not hasattr(model, "predict_proba") or len(model.classes_) != 2:
        return None
    return np.concatenate([model.predict_proba(rows)[:, 1] for rows, _ in subject.parts()])


def _reliability(subject: Subject, probabilities: np.ndarray) -> list[str | Html]:
    label = subject.model.classes_[1]
    name = subject.class_names[1]
    truth = subject.labels == label
    score = float(np.mean(np.square(probabilities - truth)))
    rates, means = calibration_curve(truth, probabilities, n_bins=_BINS)
    plot = line_plot(
        [Line("model", means, rates)],
        f"Observed frequency of {name} against its predicted probability, Brier score {score:.3f}.",
        x_label=f"predicted probability of {name}",
        y_label=f"frequency of {name}",
        shares=True,
        diagonal=True,
    )
    return [f"The Brier score of the probabilities of {name} is {score:.3f}.", Html(plot)]
