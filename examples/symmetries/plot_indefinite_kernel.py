"""
When a kernel is not a kernel
=============================

What you will learn: detect negative eigenvalues of a kernel matrix, and correct them before training.

A set kernel is a function of the smallest distance between two perturbation sets. Such a distance is not
a metric, so the kernel matrix may be indefinite. The training of an SVM is then not a convex problem.
"""

# %%
# A set kernel
# ------------
#
# The signals have unknown gain and baseline. The set of a signal contains all its gains and
# baselines within these limits.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.svm import SVC

from structinv.datasets import make_signals
from structinv.kernels import Gaussian, SetKernel, psd_corrected
from structinv.metrics import set_distance
from structinv.oracles import Offset, Segment

oracle = Offset(2.0) @ Segment(0.25, 4.0)
X, y = make_signals(100, random_state=0)
distances = set_distance(oracle, X)
kernel = SetKernel(oracle, Gaussian(np.median(distances[distances > 0])))
eigenvalues = np.linalg.eigvalsh(kernel.matrix(X, X))
negative = eigenvalues < -1e-8
print(f"{np.sum(negative)} of {len(X)} eigenvalues are negative, the smallest is {eigenvalues[0]:.2f}")

# %%
# Corrections
# -----------
#
# The function :func:`~structinv.kernels.psd_corrected` changes the negative eigenvalues: "clip"
# sets them to 0, "flip" to their absolute values, and "square" squares all eigenvalues. New samples
# get the values of the corrected kernel as well. For comparison, two plain SVMs take the raw
# signals and the standardized ones.


def standardized(X):
    """Return signals of mean 0 and variance 1."""
    return (X - X.mean(axis=1, keepdims=True)) / X.std(axis=1, keepdims=True)


errors = {}
for seed in range(10):
    X_train, y_train = make_signals(100, random_state=2 * seed)
    X_test, y_test = make_signals(300, random_state=2 * seed + 1)
    kernels = {"uncorrected": kernel}
    for spectrum in ("clip", "flip", "square"):
        kernels[spectrum] = psd_corrected(kernel, X_train, spectrum)
    for name, each in kernels.items():
        model = SVC(kernel=each, C=10).fit(X_train, y_train)
        errors.setdefault(name, []).append(1 - model.score(X_test, y_test))
    for name, change in (("raw signals", np.asarray), ("standardized", standardized)):
        model = SVC(C=10).fit(change(X_train), y_train)
        errors.setdefault(name, []).append(1 - model.score(change(X_test), y_test))

for name, found in errors.items():
    spread = np.std(found, ddof=1) / np.sqrt(len(found))
    print(f"{name:<14} error {np.mean(found):5.1%} +- {spread:.1%}")

# %%
# Errors are means of ten draws with standard errors.

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
rank = np.arange(1, len(X) + 1)
left.bar(rank[~negative], eigenvalues[~negative], color="0.45", label="positive")
left.bar(rank[negative], eigenvalues[negative], color="#D55E00", label="negative")
left.set(xlabel="Rank", ylabel="Eigenvalue (axis ends at 2)", ylim=(-0.7, 2))
left.set_title("Eigenvalues of the kernel matrix", fontsize="medium")
left.legend(loc="upper left")
colors = {"uncorrected": "#D55E00", "raw signals": "0.45", "standardized": "0.45"}
for place, (name, found) in enumerate(errors.items()):
    spread = 100 * np.std(found, ddof=1) / np.sqrt(len(found))
    style = {"marker": "o", "markersize": 8, "capsize": 4, "color": colors.get(name, "#CC79A7")}
    right.errorbar(100 * np.mean(found), place, xerr=spread, **style)
right.set(yticks=range(len(errors)), yticklabels=errors, xlabel="Test error, %", xlim=(0, None))
right.invert_yaxis()
right.set_title("Ten draws", fontsize="medium")
fig.suptitle("Without its negative eigenvalues, the kernel is far more accurate")
plt.show()

# %%
# Clipping reduces the error of the set kernel from 18 to 6 %. Standardization is better still, with
# 3.5 %: if a perturbation can be removed from the data, remove it. :class:`~structinv.InvariantSVC`
# warns about indefinite kernels; scikit-learn does not. See :doc:`/guide/invariant_kernels`.
