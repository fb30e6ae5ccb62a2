"""Word counts of two classes, and the linear model of them."""

import numpy as np

from structinv import InvariantLinearSVC
from structinv.oracles import FDrop


def mails(n=60, d=12, seed=0):
    rng = np.random.default_rng(seed)
    y = np.array(["ham", "spam"])[np.arange(n) % 2]
    lean = np.where((np.arange(d) % 2 == 0) == (y == "ham")[:, None], 1.5, 0.4)
    return rng.poisson(lean).astype(float), y


def linear(oracle=None, **parameters):
    return InvariantLinearSVC(oracle or FDrop(0), random_state=0, **parameters)
