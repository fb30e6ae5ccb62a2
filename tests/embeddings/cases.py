"""Rows, kernels and oracles for features of orbits, and their mean kernel by all pairs."""

import numpy as np
import scipy.sparse as sp

from structinv.kernels import Gaussian, Laplacian, Matern
from structinv.oracles import FiniteOracle, Identity, Shifts
from structinv.oracles.changes import LinearChanges
from structinv.oracles.listed_changes import averaged

from ..oracles.cases import ORDERS, D, Reorderings, Shrinkings

RADIAL = {
    "gaussian": Gaussian(1.7),
    "matern-1/2": Matern(2.0, 0.5),
    "matern-3/2": Matern(2.0, 1.5),
    "matern-inf": Matern(2.0, np.inf),
}
KERNELS = RADIAL | {"laplacian": Laplacian(0.2)}

# Members that templates make by moving, and members that are made of rows.
ORACLES = {
    "identity": Identity(),
    "permutations": Reorderings(ORDERS),
    "shrinkings": Shrinkings(),
    "shears": Shifts(1, shape=(1, D)),
}


def rows(n=12, d=D, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


class Erased(FiniteOracle):
    """Without the first or the last feature: linear maps that keep no inner products."""

    def orbit(self, X):
        found = np.repeat(X[:, None], 3, axis=1)
        found[:, 1, 0] = found[:, 2, -1] = 0
        return found

    def changes(self, X, y=None):
        maps = self.orbit(np.eye(X.shape[1])).swapaxes(0, 1)
        return LinearChanges(X, [sp.csr_matrix(each) for each in maps])


def exact(oracle, kernel, X):
    """The mean kernel by the members, one pair at a time."""
    law = averaged(oracle, X.shape[1])
    members = law.on(X).members()
    found = np.zeros((len(X), len(X)))
    for g, of_g in enumerate(law.weights):
        for h, of_h in enumerate(law.weights):
            found += of_g * of_h * kernel.matrix(members[:, g], members[:, h])
    return found
