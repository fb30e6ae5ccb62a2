"""Ten classes of digits, with pixels that may fade: costs, combined oracles, a second solver.

Uses scikit-learn's bundled 8 x 8 digits. A pixel is a feature here; what may change is said in terms
of features: any three pixels fade out, or every pixel moves a little.
"""

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from structinv import InvariantLinearSVC
from structinv.oracles import Box, FDrop


def main():
    """Train with and without the invariance, and certify against the same changes."""
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(
        X / 16.0, y, train_size=600, stratify=y, random_state=0
    )
    changes = FDrop(max_changes=3) | Box(radius=0.05)

    print(f"{'trained for':<22}{'solver':<13}{'clean':>7}{'attacked':>10}{'certified':>11}{'gap':>9}")
    for name, oracle, solver in [
        ("nothing", None, "auto"),
        ("fading or noise", changes, "auto"),
        ("fading or noise", changes, "bmrm"),
    ]:
        model = InvariantLinearSVC(oracle, C=0.05, solver=solver, tol=1e-2, random_state=0)
        clean = model.fit(X_train, y_train).score(X_test, y_test)
        certificate = model.certify(X_test, y_test, oracle=changes)
        print(
            f"{name:<22}{solver:<13}{clean:>7.1%}{certificate.attacked_accuracy:>10.1%}"
            f"{certificate.accuracy:>11.1%}{model.solution_.relative_gap:>9.1e}"
        )


if __name__ == "__main__":
    main()
