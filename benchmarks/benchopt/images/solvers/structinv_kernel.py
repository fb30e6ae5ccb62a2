import warnings

from benchopt import BaseSolver
from benchopt.stopping_criterion import NoCriterion

from structinv import InvariantSVC
from structinv.oracles import Sampled


class Solver(BaseSolver):
    """Minimizes the objective, and tells a lower bound of it."""

    name = "structinv"
    requirements = ["pip::structinv"]
    parameters = {"solver": ["frank_wolfe", "bmrm", "svmstruct", "pegasos"], "max_seconds": [20.0]}
    sampling_strategy = "tolerance"
    stopping_criterion = NoCriterion()

    def set_objective(self, X, y, members, changes, gamma, C):
        self.X, self.y = X, y
        settings = {"C": C, "solver": self.solver, "max_seconds": self.max_seconds, "random_state": 0}
        self.model = InvariantSVC(Sampled(changes), gamma=gamma, **settings)

    def warm_up(self):
        self.run_once(1.0)

    def get_next(self, tol):
        return min(1.0, tol) / 10**0.5

    def run(self, tol):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.model.set_params(tol=min(1.0, tol)).fit(self.X, self.y)

    def get_result(self):
        model = self.model
        found = {"points": model.support_vectors_, "coefs": model.dual_coef_[0]}
        return {**found, "dual": model.solution_.dual, "solved": True}
