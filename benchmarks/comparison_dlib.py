"""Comparison with the structural SVM of dlib: mail under removal of up to five words.

dlib minimizes the same objective if its separation oracle returns the worst removal. The oracle is
written in NumPy and is called by dlib for each mail and each plane. `epsilon` of dlib and `tol` of
structinv are lowered until the objective is within 0.1 % of the optimum. Seconds are processor seconds
of that fit. It needs dlib (Boost license).
"""

from __future__ import annotations

import time
from typing import Any

import dlib
import numpy as np
from report import parser_of, table, write_record

from structinv import InvariantLinearSVC, certify
from structinv.datasets import make_mail_like
from structinv.oracles import FDrop

K, C = 5, 0.01


class Removals:
    """The problem in the form of dlib: F(x, y) = 0 for the label, -y <w, z> for the other one."""

    def __init__(self, X: np.ndarray, signs: np.ndarray, epsilon: float) -> None:
        self.rows, self.signs = X, signs
        self.num_samples, self.num_dimensions = X.shape
        self.C, self.epsilon = C * len(X), epsilon

    def get_truth_joint_feature_vector(self, number: int) -> Any:
        """The features of the true label."""
        return dlib.sparse_vector()

    def separation_oracle(self, number: int, solution: Any) -> tuple[float, Any]:
        """The loss and the features of the worst removal."""
        z = worst(np.array(solution).ravel(), self.rows[number], self.signs[number])
        if self.signs[number] * float(np.dot(np.array(solution).ravel(), z)) >= 1:
            return 0.0, dlib.sparse_vector()
        psi = dlib.sparse_vector()
        for word in np.flatnonzero(z):
            psi.append(dlib.pair(int(word), float(-self.signs[number] * z[word])))
        return 1.0, psi


def worst(w: np.ndarray, row: np.ndarray, sign: int) -> np.ndarray:
    """The row without the K words that help the label most."""
    terms = sign * w * row
    removed = np.argsort(-terms)[:K]
    z = row.copy()
    z[removed[terms[removed] > 0]] = 0.0
    return z


def objective(w: np.ndarray, X: np.ndarray, signs: np.ndarray) -> float:
    """The objective of both."""
    losses = [max(0.0, 1 - sign * w @ worst(w, row, sign)) for row, sign in zip(X, signs, strict=True)]
    return float(w @ w / 2 + C * sum(losses))


def main() -> None:
    options = parser_of(__doc__).parse_args()
    X, y = make_mail_like(400, 300, random_state=0)
    X_test, y_test = make_mail_like(400, 300, random_state=1)
    X, signs = X.toarray(), np.where(y == "spam", 1, -1)
    signs_test = np.where(y_test == "spam", 1, -1)
    best = InvariantLinearSVC(FDrop(K), C=C, fit_intercept=False, tol=1e-6, random_state=0).fit(X, signs)
    least = best.solution_.dual
    rows = []
    for tol in (1e-2, 1e-3):
        start = time.process_time()
        model = InvariantLinearSVC(FDrop(K), C=C, fit_intercept=False, tol=tol, random_state=0)
        model.fit(X, signs)
        seconds = time.process_time() - start
        excess = objective(model.coef_[0], X, signs) / least - 1
        if excess <= 1e-3:
            break
    rows.append(line("structinv", f"tol {tol:g}", excess, seconds, model, X_test, signs_test))
    for epsilon in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5):
        start = time.process_time()
        weights = dlib.solve_structural_svm_problem(Removals(X, signs, epsilon))
        seconds = time.process_time() - start
        w = np.array(weights).ravel()
        excess = objective(w, X, signs) / least - 1
        if excess <= 1e-3:
            break
    model.coef_ = w[None]
    rows.append(line("dlib", f"epsilon {epsilon:g}", excess, seconds, model, X_test, signs_test))
    headers = ["method", "stopping rule", "excess, %", "fit, s", "clean, %", "certified by structinv, %"]
    print(table("Removal of five words", headers, rows, key="dlib"))
    write_record(options.record, "generated mail, 400 for training", "0 and 1")


def line(
    name: str, rule: str, excess: float, seconds: float, model: Any, X: Any, y: np.ndarray
) -> list[str]:
    """A row of the table."""
    certified = certify(model, FDrop(K), X, y).accuracy
    numbers = [f"{100 * excess:.3f}", f"{seconds:.2f}", f"{100 * model.score(X, y):.1f}"]
    return [name, rule, *numbers, f"{100 * certified:.1f}"]


if __name__ == "__main__":
    main()
