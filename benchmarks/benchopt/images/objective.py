"""Kernel machines for images that may be shifted.

Minimize ``1/2 |f|^2 + C sum_i max over z in S(x_i) of max(0, 1 - y_i f(z))`` over functions f in the
space of a Gaussian kernel. S(x) is the image and what `changes` lists beside it.
"""

import numpy as np
from benchopt import BaseObjective
from sklearn.metrics.pairwise import rbf_kernel


class Objective(BaseObjective):
    name = "Images that are shifted"
    min_benchopt_version = "1.10"
    requirements = ["pip::scikit-learn"]
    parameters = {"C": [10.0]}

    def skip(self, X, **others):
        return (True, "STRUCTINV_DATA has no such file") if X is None else (False, None)

    def set_data(self, X, y, X_test, y_test, gamma, changes):
        self.X, self.y, self.X_test, self.y_test = X, y, X_test, y_test
        self.gamma, self.changes = gamma, changes
        self.members, self.test_members = self.orbits(X), self.orbits(X_test)

    def orbits(self, X):
        return np.concatenate([X[:, None], self.changes(X)], axis=1)

    def get_objective(self):
        given = {"X": self.X, "y": self.y, "members": self.members, "changes": self.changes}
        return {**given, "gamma": self.gamma, "C": self.C}

    def values(self, members, points, coefs, b):
        rows = members.reshape(-1, members.shape[2])
        return (rbf_kernel(rows, points, self.gamma) @ coefs + b).reshape(members.shape[:2])

    def evaluate_result(self, points, coefs, solved, b=0.0, dual=np.nan):
        """f is ``sum_j coefs[j] k(points[j], .) + b``; only objectives without b are comparable."""
        if not len(coefs):
            points, coefs = self.X[:1], np.zeros(1)
        margins = (self.y[:, None] * self.values(self.members, points, coefs, b)).min(axis=1)
        norm = float(coefs @ rbf_kernel(points, gamma=self.gamma) @ coefs)
        value = 0.5 * norm + self.C * float(np.maximum(0.0, 1.0 - margins).sum())
        tested = self.y_test[:, None] * self.values(self.test_members, points, coefs, b)
        return {
            "value": value,
            "dual": dual,
            "gap": (value - dual) / value,
            "test_error": float(np.mean(tested[:, 0] <= 0)),
            "worst_test_error": float(np.mean(tested.min(axis=1) <= 0)),
            "solved": float(solved),
        }

    def get_one_result(self):
        return {"points": self.X[:2], "coefs": np.zeros(2), "solved": False}
