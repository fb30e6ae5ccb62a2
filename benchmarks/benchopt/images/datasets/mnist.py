import gzip
import os
from pathlib import Path

import numpy as np
from benchmark_utils.shifts import Shifts
from benchopt import BaseDataset


class Dataset(BaseDataset):
    """The first images of 3 and 8 in MNIST's training file, and all of the test file."""

    name = "mnist"
    parameters = {"folder": [os.environ.get("STRUCTINV_DATA", "")], "n_samples": [2000]}

    def get_data(self):
        folder = Path(self.folder, "mnist")
        if not folder.is_dir():
            empty = dict.fromkeys(("X", "y", "X_test", "y_test"))
            return {**empty, "gamma": None, "changes": None}
        (X, y), (X_test, y_test) = (self.read(folder, part) for part in ("train", "t10k"))
        rows = {"X": X[: self.n_samples], "y": y[: self.n_samples], "X_test": X_test, "y_test": y_test}
        return {**rows, "gamma": 0.02, "changes": Shifts(28)}

    def read(self, folder, part):
        with gzip.open(folder / f"{part}-images-idx3-ubyte.gz") as stream:
            X = np.frombuffer(stream.read(), np.uint8, offset=16).reshape(-1, 784)
        with gzip.open(folder / f"{part}-labels-idx1-ubyte.gz") as stream:
            y = np.frombuffer(stream.read(), np.uint8, offset=8)
        chosen = np.isin(y, (3, 8))
        return X[chosen] / 255.0, np.where(y[chosen] == 8, 1.0, -1.0)
