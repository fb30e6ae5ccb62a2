import tempfile
from pathlib import Path

import numpy as np
import pycrfsuite
from benchopt import BaseSolver
from benchopt.stopping_criterion import NoCriterion


class Solver(BaseSolver):
    """Minimizes another objective, the log loss of a CRF by L-BFGS, without weights of start and end."""

    name = "CRFsuite"
    requirements = ["pip::python-crfsuite"]
    sampling_strategy = "iteration"
    stopping_criterion = NoCriterion()

    def set_objective(self, X, y, n_labels, C, loss):
        self.shape = n_labels, X[0].shape[1]
        params = {"c1": 0.0, "c2": 0.5 / C, "feature.possible_transitions": True}
        self.trainer = pycrfsuite.Trainer("lbfgs", params=params, verbose=False)
        for rows, labels in zip(X, y, strict=True):
            entries = [dict(zip(map(str, row.indices), row.data.tolist(), strict=True)) for row in rows]
            self.trainer.append(entries, list(map(str, labels)))

    def get_next(self, n_iter):
        return max(1, 2 * n_iter)

    def run(self, n_iter):
        self.n_iter = n_iter
        if n_iter:
            self.trainer.set_params({"max_iterations": n_iter})
            self.folder = tempfile.TemporaryDirectory()
            self.trainer.train(str(Path(self.folder.name, "model")))

    def get_result(self):
        W, transitions = np.zeros(self.shape), np.zeros((self.shape[0], self.shape[0]))
        if self.n_iter:
            tagger = pycrfsuite.Tagger()
            tagger.open(str(Path(self.folder.name, "model")))
            for (feature, label), weight in tagger.info().state_features.items():
                W[int(label), int(feature)] = weight
            for (before, after), weight in tagger.info().transitions.items():
                transitions[int(before), int(after)] = weight
            tagger.close()
        zeros = np.zeros(self.shape[0])
        found = {"W": W, "transitions": transitions, "start": zeros, "end": zeros}
        return {**found, "solved": "log loss"}
