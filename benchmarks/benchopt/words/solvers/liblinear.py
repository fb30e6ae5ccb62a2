import warnings

import numpy as np
from benchopt import BaseSolver
from benchopt.stopping_criterion import NoCriterion
from sklearn.svm import LinearSVC


class Solver(BaseSolver):
    """Minimizes the objective of the hinge loss alone; the objectives of changed rows only judge it."""

    name = "liblinear"
    requirements = ["pip::scikit-learn"]
    sampling_strategy = "iteration"
    stopping_criterion = NoCriterion()

    def set_objective(self, X, y, C, loss, changes):
        self.X, self.y = X, y
        self.model = LinearSVC(loss="hinge", C=C, tol=1e-12, dual=True, random_state=0)

    def get_next(self, n_iter):
        return max(1, 2 * n_iter)

    def run(self, n_iter):
        self.found = np.zeros(self.X.shape[1]), 0.0
        if n_iter:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.model.set_params(max_iter=n_iter).fit(self.X, self.y)
            self.found = self.model.coef_[0], float(self.model.intercept_[0])

    def get_result(self):
        return {"w": self.found[0], "b": self.found[1], "solved": "hinge"}
