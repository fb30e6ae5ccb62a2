"""Sections about the model, its parameters and its training."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..persistence.model_files import library_versions
from ..utils.summaries import Table, named_values, one_line
from .section import Content, Section
from .subject import Subject


def package_version() -> str:
    """Return the version of structinv."""
    return library_versions()["structinv"]


def about(subject: Subject) -> Section:
    """Return the section about the model and the files."""
    values: dict[str, Any] = {
        "Model": type(subject.model).__name__,
        "Perturbations": subject.oracle_name,
        "Classes": ", ".join(subject.class_names),
        "Features": str(_n_features(subject.model)),
    }
    values["Versions"] = ", ".join(f"{name} {number}" for name, number in library_versions().items())
    seed = getattr(subject.model, "random_state", None)
    values["Seed"] = "none" if seed is None else one_line(seed)
    content: Content = [
        "This report describes a fitted classifier and tests it with labeled data. A certificate proves "
        "that no declared perturbation makes a prediction wrong.",
        named_values("", values | {name: str(value) for name, value in subject.facts.items()}),
    ]
    return Section("about", "What this is", content)


def _n_features(model: Any) -> int:
    coefficients = getattr(model, "coef_", None)
    return model.n_features_in_ if coefficients is None else np.shape(coefficients)[1]


def parameters(subject: Subject) -> Section:
    """Return the section with all parameters of the model."""
    values = {
        name: one_line(value) for name, value in sorted(subject.model.get_params(deep=True).items())
    }
    return Section("parameters", "Parameters", [named_values("", values)])


def training(subject: Subject) -> Section:
    """Return the section about the fit: status, duality gap and time."""
    solution = getattr(subject.model, "solution_", None)
    values = {name.replace("_", " "): _short(value) for name, value in subject.training.items()}
    content: list[str | Table] = []
    if solution is not None:
        values |= {
            "status": solution.outcome,
            "relative gap": f"{solution.relative_gap:.2g}",
            "seconds": f"{solution.seconds:.3g}" if solution.seconds else "not stored",
            "iterations": str(solution.iterations),
            "solver": solution.solver,
        }
        content.append(
            "Training minimizes a convex objective. The duality gap bounds the distance of its value "
            f"from the optimum. {solution.advice[:1].upper()}{solution.advice[1:]}"
        )
    content.append(named_values("", values))
    return Section("training", "Training", content)


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
