"""Fits the estimators that are named, and prints their answers, for tests in new processes."""

import json
import sys

import numpy as np
from sklearn.base import clone

from tests.estimators.cases import CASE

NAMES = ["text", "tagger", "kernel"]


def answers(model, X):
    """Predictions, the objective, and margins under the changes that the model was trained for."""
    predictions = [np.asarray(each).tolist() for each in model.predict(X)]
    margins = model.certify(X).margins.tolist()
    return {"predictions": predictions, "primal": model.solution_.primal, "margins": margins}


def worked(name):
    """The answers of a new fit."""
    case = CASE[name]
    return answers(clone(case.estimator).fit(case.X, case.y), case.X)


if __name__ == "__main__":
    json.dump({name: worked(name) for name in sys.argv[1:]}, sys.stdout)
