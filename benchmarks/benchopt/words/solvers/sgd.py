import numpy as np
import scipy.sparse as sp
from benchopt import BaseSolver
from benchopt.stopping_criterion import NoCriterion
from sklearn.linear_model import SGDClassifier


class Solver(BaseSolver):
    """Minimizes the objective of the hinge loss alone. The intercept is a column, so it is penalized."""

    name = "SGD"
    requirements = ["pip::scikit-learn"]
    sampling_strategy = "iteration"
    stopping_criterion = NoCriterion()

    def set_objective(self, X, y, C, loss, changes):
        self.X, self.y = sp.hstack([X, np.ones((len(y), 1))], format="csr"), y
        settings = {"fit_intercept": False, "average": True, "tol": None, "random_state": 0}
        self.model = SGDClassifier(alpha=1.0 / (C * len(y)), **settings)

    def get_next(self, n_iter):
        return max(1, 2 * n_iter)

    def run(self, n_iter):
        self.found = np.zeros(self.X.shape[1])
        if n_iter:
            self.found = self.model.set_params(max_iter=n_iter).fit(self.X, self.y).coef_[0]

    def get_result(self):
        return {"w": self.found[:-1], "b": float(self.found[-1]), "solved": "hinge"}
