"""Comparison with cvxpy: the same worst-case objectives, solved by a general convex solver."""

from __future__ import annotations

import time

import cvxpy as cp
import numpy as np
from report import parser_of, table, write_record
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

from structinv import InvariantLinearSVC
from structinv.datasets import make_mail_like
from structinv.oracles import Box, FDrop, InvarianceOracle

C = 0.1


def optimum(X: np.ndarray, signs: np.ndarray, oracle: InvarianceOracle) -> float:
    """The least objective, by cvxpy."""
    w = cp.Variable(X.shape[1])
    margins = cp.multiply(signs, X @ w)
    if isinstance(oracle, Box):
        worst = margins - oracle.radius * cp.norm1(w)
    else:
        lost = []
        for row, sign in zip(X, signs, strict=True):
            present = np.flatnonzero(row)
            terms = cp.pos(cp.multiply(sign * row[present], w[present]))
            lost.append(cp.sum_largest(terms, min(oracle.max_changes, len(present))))
        worst = margins - cp.hstack(lost)
    objective = cp.sum_squares(w) / 2 + C * cp.sum(cp.pos(1 - worst))
    return float(cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL))


def main() -> None:
    options = parser_of(__doc__).parse_args()
    cells, diagnosis = load_breast_cancer(return_X_y=True)
    mails, labels = make_mail_like(200, 200, random_state=0)
    tasks = {
        "Box(0.2), 569 x 30": (StandardScaler().fit_transform(cells), 2 * diagnosis - 1, Box(0.2)),
        "FDrop(5), 200 x 200": (mails.toarray(), np.where(labels == "spam", 1, -1), FDrop(5)),
    }
    rows = []
    for name, (X, signs, oracle) in tasks.items():
        model = InvariantLinearSVC(oracle, C=C, fit_intercept=False, random_state=0).fit(X, signs)
        start = time.process_time()
        model.fit(X, signs)
        middle = time.process_time()
        least = optimum(X, signs, oracle)
        end = time.process_time()
        excess = model.solution_.primal / least - 1
        rows.append([name, f"{middle - start:.3f}", f"{end - middle:.2f}", f"{excess:.1e}"])
    headers = ["problem", "structinv, s", "cvxpy, s", "excess of structinv"]
    print(table("The same objective in cvxpy", headers, rows, key="cvxpy"))
    write_record(options.record, "breast cancer data of scikit-learn; generated mail", "0")


if __name__ == "__main__":
    main()
