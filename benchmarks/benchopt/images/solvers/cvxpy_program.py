import cvxpy as cp
import numpy as np
from benchopt import BaseSolver
from sklearn.metrics.pairwise import rbf_kernel


class Solver(BaseSolver):
    """Minimizes the objective, as a quadratic program over all shifted images for Clarabel."""

    name = "cvxpy"
    requirements = ["pip::cvxpy"]
    parameters = {"most_members": [1000]}
    sampling_strategy = "run_once"

    def skip(self, members, **others):
        n = members.shape[0] * members.shape[1]
        return n > self.most_members, f"more than {self.most_members} shifted images"

    def set_objective(self, X, y, members, changes, gamma, C):
        self.points, self.shape = members.reshape(-1, X.shape[1]), members.shape[:2]
        self.y, self.gamma, self.C = y, gamma, C

    def run(self, _):
        kernel = rbf_kernel(self.points, gamma=self.gamma)
        factor = np.linalg.cholesky(kernel + 1e-10 * np.eye(len(kernel)))
        turned, slack = cp.Variable(len(kernel)), cp.Variable(len(self.y), nonneg=True)
        size = self.shape[1]
        margins = cp.multiply(self.y.repeat(size), factor @ turned)
        losses = slack[np.arange(len(kernel)) // size]
        goal = cp.Minimize(0.5 * cp.sum_squares(turned) + self.C * cp.sum(slack))
        cp.Problem(goal, [margins >= 1 - losses]).solve(solver=cp.CLARABEL)
        self.coefs = np.linalg.solve(factor.T, turned.value)

    def get_result(self):
        return {"points": self.points, "coefs": self.coefs, "solved": True}
