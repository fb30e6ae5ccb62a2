import warnings

from benchopt import BaseSolver
from benchopt.stopping_criterion import NoCriterion

from structinv import InvariantStructuredSVC
from structinv.oracles import FDrop
from structinv.structures import Sequence


class Solver(BaseSolver):
    """Minimizes every objective, and tells a lower bound of it."""

    name = "structinv"
    requirements = ["pip::structinv"]
    parameters = {"solver": ["frank_wolfe", "bmrm", "svmstruct", "pegasos"], "max_seconds": [20.0]}
    sampling_strategy = "tolerance"
    stopping_criterion = NoCriterion()

    def set_objective(self, X, y, n_labels, C, loss):
        self.X, self.y, self.loss = X, y, loss
        settings = {"C": C, "solver": self.solver, "max_seconds": self.max_seconds, "random_state": 0}
        oracle = None if loss == "hinge" else FDrop(1)
        self.model = InvariantStructuredSVC(Sequence(), oracle=oracle, **settings)

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
        chain = {"transitions": model.transitions_, "start": model.start_, "end": model.end_}
        return {"W": model.coef_, **chain, "dual": model.solution_.dual, "solved": self.loss}
