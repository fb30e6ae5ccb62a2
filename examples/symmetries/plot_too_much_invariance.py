"""
A 6 is not a 9: how much rotation?
==================================

What you will learn: choose the range of a transformation by cross-validation, and what happens if the
range is too large.

Digits on a tilted page are rotated by up to 30 degrees. Declared rotations help to classify them, but a
6 rotated by 180 degrees is a 9.
"""

# %%
# Rotate the digits
# -----------------
#
# Every digit is rotated by a random angle between -30 and 30 degrees. There are ten training digits per
# class.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.svm import SVC

from structinv import InvariantSVC, select_widths
from structinv.kernels import Gaussian, OrbitMean
from structinv.oracles import Rotations

X, y = load_digits(return_X_y=True)
variants = Rotations(degrees=np.arange(-30, 31, 5)).orbit(X / 16)
X = variants[np.arange(len(X)), np.random.default_rng(0).integers(13, size=len(X))]
X, y, X_test, y_test = X[:1000], y[:1000], X[1000:], y[1000:]
draws = [train for train, _ in StratifiedShuffleSplit(3, train_size=100, random_state=0).split(X, y)]

# %%
# Increase the declared range
# ---------------------------
#
# Two models use the declared angles, every 15 degrees. The worst case requires the same prediction for
# every angle. The averaged kernel makes the predictions at these angles similar.

kernel, widths = Gaussian(1.5), [0, 15, 30, 60, 90, 120, 150, 180]
six_or_nine = np.isin(y_test, (6, 9))


def errors(model):
    """Return the error on all test digits, and on the digits 6 and 9, in percent."""
    wrong = np.array([model.fit(X[rows], y[rows]).predict(X_test) != y_test for rows in draws])
    return 100 * wrong.mean(), 100 * wrong[:, six_or_nine].mean()


plain = errors(SVC(kernel=kernel, C=10))
curves = {"worst case": [plain], "averaged kernel": [plain]}
for width in widths[1:]:
    angles = [angle for angle in range(-width, width + 1, 15) if angle]
    rotations = Rotations(degrees=angles)
    robust = InvariantSVC(rotations, kernel=kernel, C=10, tol=1e-2, random_state=0)
    curves["worst case"].append(errors(robust))
    curves["averaged kernel"].append(errors(SVC(kernel=OrbitMean(rotations, kernel), C=10)))
print("range, degrees      error, %     error of 6 and 9, %")
for name, curve in curves.items():
    for width, (every, confused) in zip(widths, curve, strict=True):
        print(f"{name:<16}{width:>4}{every:>11.1f}{confused:>15.1f}")

# %%
# Plot the errors
# ---------------

styles = {"worst case": ("o", "#0072B2"), "averaged kernel": ("s", "#009E73")}
fig, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained", sharey=True)
for number, ax in enumerate(axes):
    for name, (marker, color) in styles.items():
        ax.plot(widths, np.array(curves[name])[:, number], marker=marker, color=color, label=name)
    ax.axhline(plain[number], color="0.45", linestyle=":", label="no rotation")
    ax.axvline(30, color="0.8", linewidth=1, zorder=0)
    ax.set(xlabel="declared range, ± degrees", xticks=range(0, 181, 30), ylim=(0, 33))
axes[0].set(title="All digits", ylabel="error, %")
axes[0].annotate("rotations\nin the data", (32, 1), color="0.45")
axes[0].legend(loc="upper center")
axes[1].set_title("Digits 6 and 9")
fig.suptitle("Some rotation helps, too much rotation confuses 6 and 9")

# %%
# Select the range on the training digits
# ---------------------------------------
#
# :func:`~structinv.select_widths` compares ranges for the averaged kernel, including no rotation. It
# uses the training digits only.

search = select_widths(
    Rotations(interval=(-15, 15)),
    X[draws[0]],
    y[draws[0]],
    {"interval": [(-width, width) for width in (15, 30, 45, 60, 90, 180)]},
    kernel=kernel,
    n_draws=8,
)
results = search.cv_results_
for interval, score, error in zip(
    results["param_kernel__oracle__interval"],
    results["mean_test_score"],
    results["mean_test_error"],
    strict=True,
):
    print(f"{interval!s:<12} {score:.3f} +- {error:.3f}")

# %%
# Without rotations, the error is 18.5 %. Declared rotations up to 30 or 60 degrees reduce it to 11.2 %
# (worst case). At 180 degrees it is again 18 to 19 %. The error of 6 and 9 falls from 13.7 to 7 %, then
# rises to 30 %.
#
# With 100 digits, the scores of ``select_widths`` have large standard errors, and the ranges from 45 to
# 180 degrees are equally good within these errors. Few labels do not show that a range is too large.
# Choose the smallest of these ranges, and declare only rotations that occur in your data.
#
# See also :doc:`/guide/invariant_kernels`.
