import numpy as np
from benchmark_utils.shifts import Shifts
from benchopt import BaseDataset


class Dataset(BaseDataset):
    """Images of 8 x 8 pixels with a horizontal or a vertical stroke somewhere, and noise."""

    name = "simulated"
    parameters = {"n_samples": [400]}
    test_parameters = {"n_samples": [40]}

    def get_data(self):
        rng, n = np.random.default_rng(0), 2 * self.n_samples
        images, y = 0.3 * rng.random((n, 8, 8)), rng.choice([-1.0, 1.0], n)
        for image, sign, (i, j) in zip(images, y, rng.integers(0, 5, (n, 2)), strict=True):
            (image if sign > 0 else image.T)[i, j : j + 4] += 0.7
        X, n = images.reshape(n, 64), self.n_samples
        rows = {"X": X[:n], "y": y[:n], "X_test": X[n:], "y_test": y[n:]}
        return {**rows, "gamma": 0.1, "changes": Shifts(8)}
