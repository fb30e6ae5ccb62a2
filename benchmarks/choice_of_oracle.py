"""Noise of the choice of an oracle on small data.

In each draw of 30 images per class, five-fold cross-validation of `InvariantSVC` chooses one of four
oracles. All are tested on the other digits of scikit-learn. The result is in `docs/guide/tune.md`.
"""

from __future__ import annotations

import warnings

import numpy as np
from report import parser_of, table, write_record
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV

from structinv import InvariantSVC
from structinv.oracles import Rotations, Shifts

SIZE = 30
ORACLES = {
    "no oracle": None,
    "Shifts(1)": Shifts(1),
    "Rotations([-10, 0, 10])": Rotations([-10, 0, 10]),
    "Rotations([-20, -10, 0, 10, 20])": Rotations([-20, -10, 0, 10, 20]),
}


def one_draw(X: np.ndarray, y: np.ndarray, seed: int) -> tuple[int, np.ndarray]:
    """The place of the chosen oracle, and the test accuracies of all, in percent."""
    rng = np.random.default_rng(seed)
    train = np.concatenate(
        [rng.permutation(np.flatnonzero(y == label))[:SIZE] for label in np.unique(y)]
    )
    test = np.setdiff1d(np.arange(len(y)), train)
    model = InvariantSVC(C=10.0, gamma=0.2, random_state=0)
    search = GridSearchCV(model, {"oracle": list(ORACLES.values())}, cv=5, refit=False)
    search.fit(X[train], y[train])
    chosen = int(np.argmax(search.cv_results_["mean_test_score"]))
    models = [clone(model).set_params(oracle=one).fit(X[train], y[train]) for one in ORACLES.values()]
    return chosen, np.array([100 * one.score(X[test], y[test]) for one in models])


def main() -> None:
    options = parser_of(__doc__, repeats=10).parse_args()
    warnings.simplefilter("ignore")
    X, y = load_digits(return_X_y=True)
    draws = []
    for seed in range(options.repeats):
        draws.append(one_draw(X / 16, y, seed))
        print(seed, *draws[-1], flush=True)
    chosen = np.array([place for place, _ in draws])
    accuracies = np.array([found for _, found in draws])
    picked = accuracies[np.arange(len(draws)), chosen]
    rows = [
        [name, int(np.sum(chosen == place)), *_spread(accuracies[:, place])]
        for place, name in enumerate(ORACLES)
    ]
    rows.append(["the chosen oracle", len(draws), *_spread(picked)])
    best = int(np.sum(accuracies.argmax(axis=1) == 1))
    rows.append(["draws in which Shifts(1) has the highest accuracy", best, ""])
    title = (
        "Choice of an oracle, 30 digits per class: draws, and test accuracy with standard deviation, %"
    )
    print(table(title, ["oracle", "chosen", "accuracy"], rows, "digits"))
    write_record(options.record, "8 x 8 digits of scikit-learn", f"draws 0 to {options.repeats - 1}")


def _spread(values: np.ndarray) -> list[str]:
    return [f"{values.mean():.1f} ± {values.std(ddof=1):.1f}"]


if __name__ == "__main__":
    main()
