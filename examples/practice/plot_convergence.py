"""
Gap against time for four solvers
=================================

What you will learn: compare solvers on one objective, by passes over the data and by seconds.

The objective is convex, so every solver approaches the same optimum. The duality gap bounds the distance
to it at any time. Estimators select a solver automatically; here each one runs on its own.
"""

# %%
# An objective
# ------------
#
# The objective is that of :class:`~structinv.InvariantLinearSVC` with ``C=0.01``, built from its
# parts: a space of functions, and a worst-case loss for three removed words.

import matplotlib.pyplot as plt
import numpy as np

from structinv.datasets import make_mail_like
from structinv.oracles import FDrop
from structinv.solvers import BMRM, FrankWolfe, Gap, OracleCalls, Pegasos, SVMStruct, solve
from structinv.spaces import ExplicitSpace
from structinv.structures import Binary
from structinv.terms import Objective, WorstCase

n_mails, n_words = 600, 600
X, y = make_mail_like(n_mails, n_words, random_state=0)
signs = np.where(y == "spam", 1.0, -1.0)
loss = WorstCase(X, signs, FDrop(3), Binary(), weights=np.full(n_mails, 0.01))
objective = Objective(ExplicitSpace(n_words), [loss])

# %%
# Four solvers
# ------------
#
# Each run ends at the relative gap 1e-6 or after 60 passes. With ``check_always=True``, the bounds
# are computed after every step, and ``history`` stores them. For some solvers such a check takes a
# pass over the data.

stop = Gap(1e-6) | OracleCalls(60 * n_mails)
solvers = {
    "FrankWolfe": FrankWolfe(),
    "SVMStruct": SVMStruct(),
    "BMRM": BMRM(),
    "Pegasos": Pegasos(),
}
solutions = {
    name: solve(objective, solver, stop, random_state=0, check_always=True)
    for name, solver in solvers.items()
}

# %%
# The table has the passes to a relative gap.


def curves(solution):
    """Return passes, seconds and relative gaps of all checks."""
    passes = [record.oracle_calls / n_mails for record in solution.history]
    seconds = [record.seconds for record in solution.history]
    gaps = [(record.primal - record.dual) / record.primal for record in solution.history]
    return np.array(passes), np.array(seconds), np.array(gaps)


print("            objective   last gap   passes to 1e-2   to 1e-4")
for name, solution in solutions.items():
    passes, _, gaps = curves(solution)
    first = [f"{passes[gaps <= tol][0]:.0f}" if min(gaps) <= tol else "-" for tol in (1e-2, 1e-4)]
    print(f"{name:<12}{solution.primal:.5f}{solution.relative_gap:>11.0e}{first[0]:>17}{first[1]:>10}")

# %%
# The seconds depend on the computer, the passes do not.

styles = {
    "FrankWolfe": ("#0072B2", "o"),
    "SVMStruct": ("#009E73", "s"),
    "BMRM": ("0.45", "^"),
    "Pegasos": ("#D55E00", "v"),
}
fig, panels = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True, layout="constrained")
for name, (color, marker) in styles.items():
    *times, gaps = curves(solutions[name])
    for ax, time in zip(panels, times, strict=True):
        ax.loglog(time, gaps, color=color, marker=marker, markevery=0.15)
    ax.annotate(name, (time[-1], gaps[-1] / 1.6), ha="center", va="top", color=color)
panels[0].set(xlabel="Passes over the data", ylabel="Relative duality gap", ylim=(1e-7, 2))
panels[1].set(xlabel="Seconds")
panels[1].margins(x=0.15)
fig.suptitle("Frank-Wolfe steps need less time to every gap")
plt.show()

# %%
# The objective values differ by less than the gaps. ``SVMStruct`` needs fewer passes to a gap of
# 1e-4 than ``FrankWolfe``, 34 instead of 51. Each pass takes longer, because it solves a quadratic
# program over all planes so far. ``Pegasos`` stores no planes, and needs many passes.
# :doc:`/guide/convergence` has rules for the choice.
