"""Demonstration of plain and robust models on generated mail and on digits."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.datasets import load_digits
from sklearn.svm import SVC, LinearSVC

from ..datasets import make_mail_like
from ..estimators import InvariantLinearSVC, InvariantSVC
from ..inspection import security_curve
from ..oracles import FDrop, InvarianceOracle, Rotations, Shifts
from ..other_models import certify
from ..utils.summaries import Table
from .output import check_folder, print_text, say

GUIDE = "https://structinv.github.io/structinv/quickstart.html"
EDITS = 5


def run_demo(out: Path, console: Console) -> None:
    """Train plain and robust models, print a table, and draw a picture in `out`."""
    drawing = find_spec("matplotlib") is not None
    if drawing:
        check_folder(out)
    rows = []
    with console.status("training on mail"):
        test = make_mail_like(shift=0.5, random_state=1)
        mail = _mail_models()
        for name, model in mail.items():
            certified = certify(model, FDrop(EDITS), *test).accuracy
            rows.append(("mail", name, f"{model.score(*test):.1%}", f"{certified:.1%}"))
    with console.status("training on digits"):
        rows += _digit_rows()
    columns = ["data", "model", "clean accuracy", "certified accuracy"]
    table = Table("Plain and robust models", columns, rows, left=(0, 1))
    print_text(console, table.text())
    console.print(
        f"Mail: up to {EDITS} words are removed, from mails that are later than those of the training. "
        "Digits: shifts by one pixel and rotations by 10 degrees. Certified accuracy is the accuracy "
        "after every such perturbation.",
        highlight=False,
    )
    if not drawing:
        say('no picture, because matplotlib is missing: pip install "structinv[plot]"')
        return
    with console.status("drawing"):
        out.mkdir(parents=True, exist_ok=True)
        edits = FDrop(EDITS)
        curve = security_curve(mail, *test, oracle=edits, n_changes=range(11), label="spam")
        curve.plot().figure_.savefig(out / "mail.png", dpi=150)
    print_text(
        console,
        f"Open {out / 'mail.png'}, the detection of spam by the number of removed words; then train on "
        f"your own data: {GUIDE}",
    )


def _mail_models() -> dict[str, Any]:
    """Return a plain and a robust linear model of generated mails."""
    X, y = make_mail_like(random_state=0)
    plain = LinearSVC(loss="hinge", C=0.01, fit_intercept=False, random_state=0)
    robust = InvariantLinearSVC(FDrop(EDITS), C=0.01, fit_intercept=False, random_state=0)
    return {"LinearSVC": plain.fit(X, y), "InvariantLinearSVC": robust.fit(X, y)}


def _digit_rows() -> list[tuple[str, str, str, str]]:
    """Return data, name, clean and certified accuracy of kernel models of few digits."""
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    oracle: InvarianceOracle = Shifts(1) | Rotations(degrees=[-10, 10])
    models = [SVC(gamma=0.2, C=10.0), InvariantSVC(oracle, gamma=0.2, C=10.0, tol=1e-2, random_state=0)]
    members = oracle.orbit(X[100:400])
    rows = []
    for model in models:
        model.fit(X[:100], y[:100])
        guesses = model.predict(members.reshape(-1, X.shape[1])).reshape(members.shape[:2])
        # All perturbations are tried, which proves the accuracy of a plain SVC as well.
        right = guesses == y[100:400, None]
        clean, certified = model.score(X[100:400], y[100:400]), np.mean(right.all(axis=1))
        rows.append(("digits", type(model).__name__, f"{clean:.1%}", f"{certified:.1%}"))
    return rows
