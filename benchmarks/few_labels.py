"""Models and selection criteria of `semi_supervised.py`, for few labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from folded_tables import Table
from scipy.linalg import helmert
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import StratifiedKFold
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier
from sklearn.svm import SVC

CS = (0.1, 1.0, 10.0, 100.0, 1000.0)
AFFINITIES = (1.0, 10.0, 100.0)
ALPHAS = (0.2, 0.8, 0.99)
N_FOLDS = 5
FOLDS, LEFT_OUT, EVIDENCE = "folds", "rows left out", "marginal likelihood"


@dataclass
class Setting:
    """Family, length scale, weight and C, with scores and the error in percent."""

    family: str
    factor: float
    name: str
    scores: dict[str, float]
    error: float


@dataclass
class Squares:
    """``1/2 |f|^2 + C sum (y - f)^2`` with a free constant, for all C at once.

    Coefficients sum to zero and are ``P y``, where P is the inverse of ``K + I / (2 C)`` on vectors of
    zero sum.
    """

    kernel: np.ndarray
    y: np.ndarray
    shifts: np.ndarray = field(default_factory=lambda: 0.5 / np.array(CS))

    def __post_init__(self) -> None:
        frame = helmert(len(self.y))
        values, vectors = np.linalg.eigh(frame @ self.kernel @ frame.T)
        self.shifted = np.maximum(values, 0.0)[:, None] + self.shifts
        self.basis = frame.T @ vectors
        self.seen = self.basis.T @ self.y
        self.coefficients = self.basis @ (self.seen[:, None] / self.shifted)
        self.constants = np.mean(self.y[:, None] - self.kernel @ self.coefficients, axis=0)

    def left_out(self) -> np.ndarray:
        """Return the leave-one-out mean squared error of each C."""
        own = self.basis**2 @ (1.0 / self.shifted)
        return np.mean((self.coefficients / own) ** 2, axis=0)

    def evidence(self) -> np.ndarray:
        """Return -2 log of the restricted likelihood up to a constant, for each C."""
        squares = np.sum(self.seen[:, None] ** 2 / self.shifted, axis=0)
        return len(self.seen) * np.log(squares) + np.sum(np.log(self.shifted), axis=0)


def wrong(scores: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the number of wrong signs per column."""
    return np.sum(np.where(scores >= 0, 1, -1) != y[:, None], axis=0)


def hinge(kernel: np.ndarray, y: np.ndarray, across: np.ndarray) -> np.ndarray:
    """Scores of other rows for each C, by support vector machines."""
    if len(np.unique(y)) == 1:
        return np.full((len(across), len(CS)), float(y[0]))
    columns = []
    for C in CS:
        svc = SVC(kernel="precomputed", C=C, tol=1e-4).fit(kernel, y)
        columns.append(across[:, svc.support_] @ svc.dual_coef_[0] + svc.intercept_[0])
        if np.max(np.abs(svc.dual_coef_)) < 0.999 * C:
            # No bound is active, so larger C have the same model.
            columns += columns[-1:] * (len(CS) - len(columns))
            break
    return np.column_stack(columns)


def squared(kernel: np.ndarray, y: np.ndarray, across: np.ndarray) -> np.ndarray:
    """Scores of other rows for each C, by least squares."""
    fitted = Squares(kernel, y)
    return across @ fitted.coefficients + fitted.constants


Fit = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


@dataclass
class Draw:
    """Labeled rows, their folds (places among them), and all other rows."""

    y: np.ndarray
    labeled: np.ndarray
    seed: int

    def __post_init__(self) -> None:
        self.own = self.y[self.labeled]
        self.others = np.setdiff1d(np.arange(len(self.y)), self.labeled)
        split = StratifiedKFold(N_FOLDS, shuffle=True, random_state=self.seed)
        self.folds = list(split.split(self.labeled, self.own))

    def machine(self, tables: Sequence[Table], fit: Fit) -> list[Setting]:
        """Fit a model for every kernel and C."""
        found = []
        for one in tables:
            kernel, across = one.among(self.labeled), one.between(self.others, self.labeled)
            errors = wrong(fit(kernel, self.own, across), self.y[self.others]) / len(self.others)
            folds = sum(
                wrong(fit(kernel[np.ix_(train, train)], self.own[train], kernel[np.ix_(held, train)]),
                      self.own[held])
                for train, held in self.folds
            )  # fmt: skip
            scores = {FOLDS: folds}
            if fit is squared:
                whole = Squares(kernel, self.own)
                scores |= {LEFT_OUT: whole.left_out(), EVIDENCE: whole.evidence()}
            for place, C in enumerate(CS):
                own = {criterion: float(each[place]) for criterion, each in scores.items()}
                name = f"{one.name}, C {C:g}"
                found.append(Setting(one.family, one.factor, name, own, 100 * float(errors[place])))
        return found

    def spreading(self, affinities: dict[float, np.ndarray]) -> list[Setting]:
        """LabelSpreading with every affinity and alpha."""
        found = []
        for factor, affinity in affinities.items():
            for alpha in ALPHAS:
                folds = sum(
                    self._spread(affinity, alpha, self.labeled[train], self.labeled[held])
                    for train, held in self.folds
                )
                error = self._spread(affinity, alpha, self.labeled, self.others) / len(self.others)
                name = f"gamma {factor:g}, alpha {alpha:g}"
                found.append(Setting("spreading", factor, name, {FOLDS: folds}, 100 * error))
        return found

    def _spread(self, affinity: np.ndarray, alpha: float, rows: np.ndarray, asked: np.ndarray) -> float:
        """Return the number of wrong labels of the requested rows."""
        known = np.full(len(self.y), -1)  # what scikit-learn takes for no label
        known[rows] = self.y[rows] > 0
        model = LabelSpreading(kernel=lambda X, Y=None: affinity.copy(), alpha=alpha)
        model.fit(np.zeros((len(self.y), 1)), known)
        return float(np.sum((model.transduction_[asked] > 0) != (self.y[asked] > 0)))

    def self_training(self, X: np.ndarray, median: float, like: Setting) -> list[Setting]:
        """SelfTrainingClassifier around a calibrated SVC of a setting's width and C."""
        known = np.full(len(self.y), -1)
        known[self.labeled] = self.own > 0
        fewest = min(np.sum(known == 0), np.sum(known == 1))
        C = float(like.name.split(" C ")[1])
        machine = SVC(gamma=0.5 / (like.factor * median) ** 2, C=C)
        split = StratifiedKFold(max(2, min(N_FOLDS, fewest)), shuffle=True, random_state=self.seed)
        model = SelfTrainingClassifier(CalibratedClassifierCV(machine, cv=split, ensemble=False))
        model.fit(X, known)
        error = np.mean(model.predict(X[self.others]) != (self.y[self.others] > 0))
        return [Setting("self-training", like.factor, like.name, {FOLDS: 0.0}, 100 * float(error))]
