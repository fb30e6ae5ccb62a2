import warnings

from benchopt import BaseSolver
from benchopt.stopping_criterion import NoCriterion

from structinv import InvariantLinearSVC
from structinv.oracles import FScale


class Solver(BaseSolver):
    """Minimizes every objective, and tells a lower bound of it."""

    name = "structinv"
    requirements = ["pip::structinv"]
    parameters = {"solver": ["frank_wolfe", "bmrm", "svmstruct", "pegasos"], "max_seconds": [20.0]}
    sampling_strategy = "tolerance"
    stopping_criterion = NoCriterion()

    def set_objective(self, X, y, C, loss, changes):
        self.X, self.y, self.loss = X, y, loss
        oracle = FScale(*changes) if changes[0] else None
        settings = {"C": C, "solver": self.solver, "max_seconds": self.max_seconds, "random_state": 0}
        self.model = InvariantLinearSVC(oracle, **settings)

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
        found = {"w": model.coef_[0], "b": float(model.intercept_[0])}
        return {**found, "dual": model.solution_.dual, "solved": self.loss}
