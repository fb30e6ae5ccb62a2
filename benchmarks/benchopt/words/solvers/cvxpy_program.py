import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from benchopt import BaseSolver


class Solver(BaseSolver):
    """Minimizes every objective, as a quadratic program (Globerson and Roweis 2006) for Clarabel.

    The most that K words take of a margin is the least of ``K t + sum of what exceeds t``.
    """

    name = "cvxpy"
    requirements = ["pip::cvxpy"]
    parameters = {"most_entries": [100_000]}
    sampling_strategy = "run_once"

    def skip(self, X, **others):
        return X.nnz > self.most_entries, f"more than {self.most_entries} entries"

    def set_objective(self, X, y, C, loss, changes):
        self.X, self.y, self.C, self.loss, self.changes = X, y, C, loss, changes

    def run(self, _):
        X, y, (most, low, high) = self.X, self.y, self.changes
        n, rows = len(y), np.repeat(np.arange(len(y)), np.diff(X.indptr))
        self.w, self.b, slack = cp.Variable(X.shape[1]), cp.Variable(), cp.Variable(n, nonneg=True)
        margins, constraints = cp.multiply(y, X @ self.w + self.b), []
        if most:
            t, excess = cp.Variable(n, nonneg=True), cp.Variable(X.nnz, nonneg=True)
            entries = np.arange(X.nnz)
            parts = sp.csr_matrix((y[rows] * X.data, (entries, X.indices)), (X.nnz, X.shape[1])) @ self.w
            of_rows = sp.csr_matrix((np.ones(X.nnz), (entries, rows)), (X.nnz, n))
            constraints = [excess + of_rows @ t >= (1 - factor) * parts for factor in (low, high)]
            margins = margins - most * t - of_rows.T @ excess
        norm = cp.sum_squares(self.w) + cp.square(self.b)
        goal = cp.Minimize(0.5 * norm + self.C * cp.sum(slack))
        cp.Problem(goal, [*constraints, margins >= 1 - slack]).solve(solver=cp.CLARABEL)

    def get_result(self):
        return {"w": self.w.value, "b": float(self.b.value), "solved": self.loss}
