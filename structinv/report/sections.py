"""Sections for all models: the model, accuracy, margins, parameters, training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..certificates.certificate import Certificate
from ..oracles import InvarianceOracle
from ..persistence.model_files import library_versions
from ..utils.parameters import check_integer
from ..utils.summaries import Html, Table, how_many, named_values, one_line, percent
from .content import COLORS, MEASURES, Content, interval, picture, share, without_equal_columns
from .subject import Subject


def about(subject: Subject) -> Content:
    """Return the section about the model and the files."""
    model = subject.model
    coefficients, seed = (getattr(model, name, None) for name in ("coef_", "random_state"))
    n_features = model.n_features_in_ if coefficients is None else np.shape(coefficients)[1]
    values = {
        "Model": type(model).__name__,
        "Perturbations": subject.oracle_name,
        "Classes": ", ".join(subject.class_names),
        "Features": str(n_features),
        "Versions": ", ".join(f"{name} {number}" for name, number in library_versions().items()),
        "Seed": "none" if seed is None else one_line(seed),
        **subject.facts,
    }
    text = (
        "This report describes a fitted classifier and tests it with labeled data. A certificate proves "
        "that no declared perturbation makes a prediction wrong."
    )
    return [text, named_values("", values)]


def parameters(subject: Subject) -> Content:
    """Return the section with all parameters of the model."""
    found = subject.model.get_params(deep=True)
    return [named_values("", {name: one_line(found[name]) for name in sorted(found)})]


def training(subject: Subject) -> Content:
    """Return the section about the fit: status, duality gap and time."""
    solution = getattr(subject.model, "solution_", None)
    values = {
        name.replace("_", " "): f"{value:.3g}" if isinstance(value, float) else str(value)
        for name, value in subject.training.items()
    }
    if solution is None:
        return [named_values("", values)]
    values |= {
        "status": solution.outcome,
        "relative gap": f"{solution.relative_gap:.2g}",
        "seconds": f"{solution.seconds:.3g}" if solution.seconds else "not stored",
        "iterations": str(solution.iterations),
        "solver": solution.solver,
    }
    text = (
        "Training minimizes a convex objective. The duality gap bounds the distance of its value "
        f"from the optimum. {solution.advice[:1].upper()}{solution.advice[1:]}"
    )
    return [text, named_values("", values)]


def check_numbers(oracle: InvarianceOracle, n_changes: Sequence[int] | None) -> list[int]:
    """Return the numbers of edits of a report.

    The number of the oracle is always among them. By default they are 0, and a quarter, half, once and
    twice the number of the oracle. The list is empty if edits cannot be counted. Numbers then raise
    ValueError.
    """
    if n_changes is not None and not isinstance(n_changes, (Sequence, np.ndarray)):
        raise TypeError(f"n_changes must be None or a sequence of integers, got {n_changes!r}")
    counted = oracle.counted()
    if counted is None:
        if n_changes is None:
            return []
        raise ValueError(
            "n_changes must be None if the edits of the oracle cannot be counted, got "
            f"{list(n_changes)} for {oracle!r}"
        )
    if n_changes is None:
        return sorted({0, counted.most // 4, counted.most // 2, counted.most, 2 * counted.most})
    for number in n_changes:
        check_integer("n_changes", number, least=0)
    return sorted({*n_changes, counted.most})


def accuracy(subject: Subject, certificate: Certificate, numbers: Sequence[int]) -> Content:
    """Return the section about accuracy, by the number of edits if it counts."""
    _, units = subject.unit
    texts = [
        f"Clean accuracy is the accuracy on unperturbed {units}: {share(subject.correct)}. Attacked "
        f"accuracy counts {units} that are classified correctly after the worst perturbation found. "
        f"Certified accuracy counts {units} that are classified correctly after every declared "
        "perturbation. The accuracy under the worst perturbation is between these two.",
        f"Certified accuracy ({subject.oracle_name}): {share(certificate.correct)}, on "
        f"{subject.how_many(certificate.correct)}. Its 95 % interval (Wilson) is "
        f"{interval(certificate.correct)}, for new {units} of the same distribution.",
    ]
    counted = subject.oracle.counted()
    column, curve = "perturbations", list[Html]()
    # Both names are "none" for a model without an oracle.
    certificates = {"none": subject.unperturbed, subject.oracle_name: certificate}
    if counted is not None and numbers:
        edited = "" if subject.edited == subject.unit[0] else f" per {subject.edited}"
        column = f"edits allowed{edited}"
        # Grades change the costs in training, not the certificates.
        certificates = {
            str(most): certificate
            if most == counted.most
            else subject.certificate(counted.at_most(most))
            for most in numbers
        }
        curve = [_curve(certificates, column)]
    rows = [
        (name, percent(each.attacked_accuracy), percent(each.accuracy), how_many(each.exact))
        for name, each in certificates.items()
    ]
    table = Table("", [column, *MEASURES, "tight margins"], rows)
    return [*texts, *curve, *without_equal_columns(table, "accuracies")]


def _curve(certificates: dict[str, Certificate], x_label: str) -> Html:
    x = np.array([float(number) for number in certificates])
    attacked = [each.attacked_accuracy for each in certificates.values()]
    certified = [each.accuracy for each in certificates.values()]

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        axes.plot(x, certified, "o-", color=COLORS[0], label="certified")
        # Equal lines would hide each other.
        if not np.array_equal(attacked, certified):
            axes.plot(x, attacked, "s--", color=COLORS[1], label="attacked")
        axes.set(xlabel=x_label, ylabel="accuracy", ylim=(0.0, 1.03))
        axes.locator_params(axis="x", integer=True)
        axes.yaxis.set_major_formatter("{x:.0%}")
        axes.legend()

    numbers = list(certificates)
    return picture(
        draw,
        f"Certified accuracy is {percent(certified[0])} for {numbers[0]} edits and "
        f"{percent(certified[-1])} for {numbers[-1]} edits.",
    )


def margins(subject: Subject, certificate: Certificate) -> Content:
    """Return the section about margins."""
    _, units = subject.unit
    clean = subject.unperturbed.attacked
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

    return [
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
