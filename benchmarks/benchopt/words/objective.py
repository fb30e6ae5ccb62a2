"""Linear classification of word counts where words may be dropped or scaled.

Minimize ``1/2 |w|^2 + 1/2 b^2 + C sum_i max over z in S(x_i) of max(0, 1 - y_i (<w, z> + b))``. S(x) is
x alone ("hinge"), or x with at most 10 words dropped ("FDrop") or scaled by factors ("FScale").
"""

import numpy as np
from benchopt import BaseObjective

# The most changes, and the ends of the factors.
LOSSES = {"hinge": (0, 1.0, 1.0), "FDrop(10)": (10, 0.0, 1.0), "FScale(10, 0.5, 2)": (10, 0.5, 2.0)}


def worst_margins(X, y, w, b, changes):
    """The least margin of each row of a CSR matrix under so many changes, between two factors."""
    most, low, high = changes
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    parts = y[rows] * X.data * w[X.indices]
    losses = np.maximum((1.0 - low) * parts, (1.0 - high) * parts)
    order = np.lexsort((-losses, rows))
    worst = np.arange(len(rows)) - X.indptr[rows] < most
    lost = np.bincount(rows, losses[order] * worst, minlength=X.shape[0])
    return y * (X @ w + b) - lost


class Objective(BaseObjective):
    name = "Words that change"
    min_benchopt_version = "1.10"
    requirements = ["pip::numpy", "pip::scipy"]
    parameters = {"loss": list(LOSSES), "lam": [1e-3]}

    def skip(self, X, **others):
        return (True, "STRUCTINV_DATA has no such file") if X is None else (False, None)

    def set_data(self, X, y, X_test, y_test):
        self.X, self.y, self.X_test, self.y_test = X, y, X_test, y_test

    def get_objective(self):
        C = 1.0 / (self.lam * len(self.y))
        return {"X": self.X, "y": self.y, "C": C, "loss": self.loss, "changes": LOSSES[self.loss]}

    def evaluate_result(self, w, b, solved, dual=np.nan):
        """`solved` is the loss that the solver minimizes, `dual` its lower bound of the optimum."""
        changes, C = LOSSES[self.loss], 1.0 / (self.lam * len(self.y))
        losses = np.maximum(0.0, 1.0 - worst_margins(self.X, self.y, w, b, changes))
        value = 0.5 * float(w @ w) + 0.5 * b * b + C * float(losses.sum())
        clean, worst = (
            float(np.mean(worst_margins(self.X_test, self.y_test, w, b, some) <= 0))
            for some in (LOSSES["hinge"], changes)
        )
        return {
            "value": value,
            "dual": dual,
            "gap": (value - dual) / value,
            "test_error": clean,
            "worst_test_error": worst,
            "solved": float(solved == self.loss),
        }

    def get_one_result(self):
        return {"w": np.zeros(self.X.shape[1]), "b": 0.0, "solved": "hinge"}
