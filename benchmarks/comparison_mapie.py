"""Comparison with conformal prediction (MAPIE): prediction sets of mail, before and after edits.

A linear model without robust training (`InvariantLinearSVC` has the interface of scikit-learn, but
MAPIE needs probabilities, so it is LogisticRegression) is made conformal on 500 mails for a coverage of
95 %. Coverage is the fraction of 1000 test mails whose prediction set contains the label. The edits
remove the five words of each mail that lower the margin most. `structinv.certify` certifies the same
model. Means of 10 draws. It needs mapie (BSD license).
"""

from __future__ import annotations

import numpy as np
from mapie.classification import SplitConformalClassifier
from report import mean_text, parser_of, table, write_record
from sklearn.linear_model import LogisticRegression

from structinv import InvariantLinearSVC, certify
from structinv.datasets import make_mail_like
from structinv.oracles import FDrop

EDITS = FDrop(5)


def measured(seed: int) -> dict[str, list[float]]:
    """Accuracy, coverage and mean size of the sets, without and with edits; certified accuracy."""
    (X, y), (X_held, y_held), (X_test, y_test) = (
        make_mail_like(n, 300, random_state=3 * seed + part) for part, n in enumerate((400, 500, 1000))
    )
    X, X_held, X_test = X.toarray(), X_held.toarray(), X_test.toarray()
    model = LogisticRegression(C=0.01, fit_intercept=False).fit(X, y)
    conformal = SplitConformalClassifier(model, confidence_level=0.95, prefit=True)
    conformal.conformalize(X_held, y_held)
    # The worst removals of a linear model: those of a structinv model with its weights.
    attacker = InvariantLinearSVC(EDITS, C=0.01, fit_intercept=False, random_state=0).fit(X, y)
    attacker.coef_ = model.coef_
    attacked = attacker.worst_case(X_test, y_test)
    lines = {}
    for name, mails in {"as received": X_test, "after the worst removal": attacked}.items():
        _, sets = conformal.predict_set(mails)
        sets = sets[:, :, 0]
        covered = sets[np.arange(len(y_test)), np.searchsorted(model.classes_, y_test)]
        lines[name] = [100 * model.score(mails, y_test), 100 * covered.mean(), sets.sum(axis=1).mean()]
    certified = 100 * certify(model, EDITS, X_test, y_test).accuracy
    return {name: [*line, certified] for name, line in lines.items()}


def main() -> None:
    options = parser_of(__doc__, repeats=10).parse_args()
    runs = [measured(seed) for seed in range(options.repeats)]
    rows = []
    for name in runs[0]:
        numbers = np.array([run[name] for run in runs])
        texts = [mean_text(numbers[:, 0]), mean_text(numbers[:, 1]), mean_text(numbers[:, 2], ".2f")]
        rows.append([name, *texts, mean_text(numbers[:, 3])])
    headers = ["mails", "accuracy, %", "coverage, %", "labels per set", "certified, %"]
    print(table("Conformal prediction sets of LogisticRegression", headers, rows, key="mapie"))
    write_record(options.record, "generated mail", f"0 to {options.repeats - 1}")


if __name__ == "__main__":
    main()
