import numpy as np
from benchmark_utils.shifts import Shifts
from benchopt import BaseDataset
from sklearn.datasets import load_digits


class Dataset(BaseDataset):
    """scikit-learn's digits, 3 against 8; every other image is for tests."""

    name = "digits"
    requirements = ["pip::scikit-learn"]

    def get_data(self):
        X, y = load_digits(return_X_y=True)
        X, y = X[np.isin(y, (3, 8))] / 16.0, y[np.isin(y, (3, 8))]
        y = np.where(y == 8, 1.0, -1.0)
        rows = {"X": X[::2], "y": y[::2], "X_test": X[1::2], "y_test": y[1::2]}
        return {**rows, "gamma": 0.1, "changes": Shifts(8)}
