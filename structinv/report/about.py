"""Sections about the model, its parameters and its training."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..persistence.model_files import library_versions
from ..solvers.base import Record
from ..utils.html import Html
from ..utils.summaries import Table, named_values, one_line
from .pictures import COLORS, picture
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
    content: list[str | Table | Html] = []
    if solution is not None:
        values |= {
            "status": solution.outcome,
            "relative gap": f"{solution.relative_gap:.2g}",
            "seconds": f"{solution.seconds:.3g}" if solution.seconds else "not stored",
            "iterations": str(solution.iterations),
            "solver": solution.solver,
        }
    if values:
        content.append(named_values("", values))
    if solution is not None:
        content.append(
            "Training minimizes a convex objective. The duality gap bounds the distance of its value "
            f"from the optimum. Status: {solution.outcome}; {solution.advice}"
        )
        content += _gaps(solution.history)
    return Section("training", "Training", content)


def _gaps(history: list[Record]) -> list[Html]:
    """Return a plot of the relative duality gap; empty without two checks of a positive gap."""
    gaps = np.array([(each.primal - each.dual) / max(each.primal, 1e-300) for each in history])
    shown = np.flatnonzero(np.isfinite(gaps) & (gaps > 0))
    if len(shown) < 2:
        return []
    # Model files may lack times.
    timed = any(each.seconds for each in history)
    places = [history[k].seconds if timed else history[k].iteration for k in shown]

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        axes.semilogy(places, gaps[shown], color=COLORS[0])
        axes.set(xlabel="seconds" if timed else "iterations", ylabel="relative duality gap")
        ends = np.log10([gaps[shown].min(), gaps[shown].max()])
        axes.set_ylim(10.0 ** np.floor(ends[0]), 10.0 ** np.ceil(ends[1] + 1e-9))
        axes.yaxis.set_major_formatter("{x:.0e}")
        axes.minorticks_off()
        axes.locator_params(axis="x", nbins=5)

    return [picture(draw, f"The last relative duality gap is {gaps[shown[-1]]:.2g}.")]


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
