"""Semi-supervised classification of two moons with a gradient penalty.

Two points have labels, 198 have none. The norm of the gradient is penalized at all points, with weight
nu (Zhang, Lee and Teh 2013, figure 1). The picture shows the models for four weights.
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import CenteredNorm
from sklearn.datasets import make_moons
from sklearn.inspection import DecisionBoundaryDisplay

from structinv import RepresenterClassifier
from structinv.functionals import Gradient
from structinv.kernels import Gaussian


def moons(n_points=200, noise=0.05, seed=0):
    """Return points, true classes, and labels (-1 except for one point per class)."""
    X, y = make_moons(n_points, noise=noise, random_state=seed)
    labels = np.full(n_points, -1)
    for moon in (0, 1):
        labels[np.flatnonzero(y == moon)[0]] = moon
    return X, y, labels


def draw(axes, model, X, labels):
    """Draw the decision function in color, the boundary and the points."""
    options = {"response_method": "decision_function", "ax": axes, "grid_resolution": 150, "eps": 0.3}
    DecisionBoundaryDisplay.from_estimator(
        model, X, plot_method="pcolormesh", cmap="RdBu", norm=CenteredNorm(), alpha=0.7, **options
    )
    DecisionBoundaryDisplay.from_estimator(
        model, X, plot_method="contour", levels=[0.0], colors="black", **options
    )
    axes.scatter(*X[labels == -1].T, s=6, color="dimgray")
    for moon, color, marker in ((0, "darkred", "s"), (1, "darkblue", "^")):
        axes.scatter(*X[labels == moon].T, s=90, color=color, marker=marker, edgecolor="white", zorder=3)
    axes.set(xticks=[], yticks=[])


def main():
    """Train four models, print their errors and draw them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("picture", nargs="?", type=Path, default=Path("two_moons.png"))
    options = parser.parse_args()
    X, y, labels = moons()
    unlabeled = labels == -1
    figure, panels = plt.subplots(1, 4, figsize=(13, 3.2), layout="constrained")
    print(f"{'nu':>5}{'error on unlabeled points':>29}")
    for nu, axes in zip((0.0, 0.01, 0.1, 1.0), panels, strict=True):
        model = RepresenterClassifier(
            Gaussian(0.25), invariances=[Gradient()], loss="logistic", invariance_loss="squared", nu=nu
        ).fit(X, labels)
        error = 1 - model.score(X[unlabeled], y[unlabeled])
        print(f"{nu:>5g}{error:>29.1%}")
        draw(axes, model, X, labels)
        axes.set_title(f"nu = {nu:g}: {error:.1%} error")
    figure.savefig(options.picture, dpi=150)
    print(f"picture: {options.picture}")


if __name__ == "__main__":
    main()
