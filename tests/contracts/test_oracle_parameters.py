"""Wrong parameters of all oracles raise with their name, wherever oracles are asked first.

Numbers that are no numbers: `test_parameters.py`.
"""

import numpy as np
import pytest

from structinv import InvariantLinearSVC
from structinv.oracles import (
    Box,
    Budget,
    Ellipsoid,
    FAdd,
    FDrop,
    FEdit,
    Flip,
    FScale,
    LocalTangents,
    Offset,
    Permutations,
    Protected,
    Rotations,
    Sampled,
    Scalings,
    Segment,
    Shared,
    Shears,
    Shifts,
    TangentDerivative,
    Trajectory,
)
from structinv.oracles.combinators import Discounted, OnlyFor
from structinv.oracles.compose import Compose
from structinv.oracles.images.image_maps import ImageShape
from structinv.oracles.union import Union

# Rows of 16 features, which may be images of 4 x 4.
N, D = 4, 16
X, Y = np.eye(N, D), np.arange(N) % 2
REFERENCE = np.random.default_rng(0).standard_normal((40, D))
EYE = np.eye(D)


def powers(X):
    return np.stack([X, 0.5 * X], axis=1)


def local(**options):
    return LocalTangents(**{"reference": REFERENCE, **options})


SHAPE = "shape must be a pair of integers of at least 1"
LABELED = "they depend on the label"
FINITE = "Shared: oracle must be finite"
COUNTED = "Budget: oracle must be FDrop, FScale, FAdd or FEdit"
WRONG_VALUES = [
    (FDrop(-1), "max_changes must be an integer of at least 0, got -1"),
    (FScale(2, low=1.5), "low"),
    (FScale(2, high=0.9), "high"),
    (FAdd(17), "max_changes must be at least 0 and at most 16"),
    (FAdd(3, allowed=[1, 2]), "at most 2, the number of features that may be added"),
    (FAdd(1, 0.0), "value must be a number above 0"),
    (FAdd(1, np.ones(5)), r"\(16 features\), got 5 numbers"),
    (FAdd(1, 1.0 - EYE[2]), "for feature 2: use the argument allowed"),
    (FAdd(1, allowed=[0, D]), "allowed must contain column numbers, from 0 to 15"),
    (FAdd(1, allowed=[]), "allowed must select at least one feature"),
    (FAdd(1, allowed=np.ones(5, bool)), "one entry for each of the 16 features"),
    (FAdd(1, allowed=[0, 0, 0, 1, 1, 1]), "got 0 3 times; a mask must contain booleans"),
    (FAdd(1, allowed=EYE[0].astype(int)), r"np.asarray\(allowed, dtype=bool\)"),
    (FAdd(1, allowed=["x", "y"]), "because X has no column names"),
    (FEdit(1, allowed=[1]), "allowed must be None without add"),
    (FEdit(1, drop=False), "must allow an edit"),
    (FEdit(1, scale=(2.0, 3.0)), r"scale must be \(low, high\) with low in"),
    (Box(-0.5), "radius"),
    (Box(np.ones(D + 1)), r"radius must be .* shape \(16,\).*\(17,\)"),
    (Ellipsoid(np.ones((D + 1, 2))), r"factor must have shape \(16, r\).*\(17, 2\)"),
    (Ellipsoid(np.full((D, 1), np.nan)), "factor must be finite"),
    (Ellipsoid(lambda X: X), r"factor\(X\) must have shape \(4, 16, r\)"),
    (Ellipsoid(EYE, -1.0), "radius"),
    (TangentDerivative(EYE[:, :2], 1.0), r"tangents.*\(t, 16\)"),
    (TangentDerivative(EYE[:2], -1.0), "bounds"),
    (TangentDerivative(Ellipsoid(EYE[:3]), 1.0), "factor"),
    (local(n_directions=0), "n_directions must be at least 1 and at most 9"),
    (local(n_neighbors=4, n_directions=4), "n_directions must be .* at most 3"),
    (local(n_neighbors=1), "n_neighbors must be at least 2 and at most 40"),
    (local(n_neighbors=41), "at most 40, the number of reference rows"),
    (local(radius=[1.0, 2.0]), "radius must be one number"),
    (local(reference=REFERENCE[:, :5]), r"reference must have shape \(n_reference, 16\)"),
    (local(reference=np.nan * REFERENCE), "reference must be finite"),
    (Segment(1.5, 2.0), r"low must be at most 1.*low=1.5 and high=2.0"),
    (Segment(0.1, 0.9), "high at least 1"),
    (Offset(-1.0), "limit must be at least 0, got -1.0"),
    (Trajectory(powers, 2, (0.5, 1.0)), r"interval must contain 0.*\(0.5, 1.0\)"),
    (Trajectory(powers, 2, (1.0, -1.0)), "low <= high"),
    (Trajectory(powers, 2, (-1.0, np.nan)), "interval must be a finite number"),
    (Trajectory(powers, 3), "function must return coefficients of shape"),
    (Trajectory(lambda X: X, 1), r"of shape \(4, 1, 16\), got \(4, 16\)"),
    (Trajectory(lambda X: np.nan * X[:, None], 1), "coefficients that are not finite"),
    (Sampled(lambda X: X), r"function must return members of shape \(., s, 16\), got"),
    (Sampled(lambda X: X[:, None, 1:]), "function must return members of shape"),
    (Sampled(lambda X: np.inf + X[:, None]), "members that are not finite"),
    (Rotations(10, shape=(3, 3)), "16 features of X, got .*9 values"),
    (Rotations(10, interval=(0, 1)), "degrees must be None if interval is given"),
    (Rotations(interval=(1, 0)), "interval.*low <= high"),
    (Rotations(10, order=2), "order"),
    (Rotations(10, fill="mirror"), "fill"),
    (Rotations(10, spread=0), "spread must be a number above 0"),
    (Shears(0.1, axes=2), "axes"),
    (Shifts(-1), "pixels must be at least 0"),
    (Shifts(interval=(-1, 2)), r"symmetric pair.*got \(-1, 2\):.*pass \(0, 2\)"),
    (Shifts(1, directions="8"), "directions must be 4 or 8, got '8'"),
    (Scalings([0.5, 0]), "factors must be above 0"),
    (Scalings(interval=(0, 1)), "interval must be above 0"),
    (Scalings((0.9, 1.1)), r"pair .*\[.*\] for two values, or interval="),
    (Flip(1.0), "axis must be 0 or 1, got 1.0"),
    *((Permutations(shape), SHAPE) for shape in (D, (D,), (2, 8, 1), (0, D), (-4, -4), (4.0, 4.0))),
    *((Permutations(shape), SHAPE) for shape in ((True, D), "44", None, (4, None), ImageShape(4, 2, 2))),
    (Permutations((2, 4)), r"shape must match the 16 features, got \(2, 4\) with 8"),
    (Permutations((1, D), "both"), "must be square"),
    (Permutations((4, 4), "columns"), "axes must be one of"),
    (Box(0.1) | FDrop(-1), "max_changes"),
    (Box(-1.0) @ FDrop(1), "radius"),
    (FDrop(-1).only_for(1), "max_changes"),
    (FDrop(1).only_for([]), "labels"),
    (OnlyFor(FDrop(1), None), "labels"),
    (Discounted(FDrop(1), 1.5), "rho"),
    (Protected(FAdd(1), [D]), "features must contain column numbers"),
    (Protected(Budget(FDrop(1)), [1]), "write Shared"),
    (Shared(Shifts(1).only_for(1)), LABELED),
    (Shared(Shifts(1) | Flip().only_for(1)), LABELED),
    (Shared(FDrop(1)), FINITE),
    (Shared(Shifts(1) | Box(0.1)), FINITE),
    (Shared(Shifts(interval=(0.5, 1.0))), FINITE),
    (Shared(Shared(Shifts(1))), "Shared: oracle must perturb each sample"),
    (Budget(Shared(Shifts(1))), "Budget: oracle must perturb each sample"),
    (Budget(Shifts(1)), COUNTED),
    (Budget(Box(0.1)), COUNTED),
    (Budget(FDrop(1).discounted(0.5).discounted(0.5)), COUNTED),
    (Budget(FDrop(2).discounted([1.0, 0.2, 0.8])), "grades must not increase with the number of edits"),
    (Budget(FDrop(2).discounted([1.0, 0.2])), "rho must be a number, or have 3 entries"),
    ((FDrop(1) | Budget(FDrop(1))).only_for(1), "only_for: oracle must perturb each sample"),
    (Budget(FDrop(1)).discounted(0.5), "discounted: oracle must perturb each sample.*write Shared"),
    (Shared(Shifts(1)) @ Flip(), r"each part of @ must perturb each sample.*Shared\(left"),
    (Flip() @ Shared(Shifts(1)), "each part of @ must perturb each sample"),
]
WRONG_TYPES = [
    (FAdd(1, np.ones((D, 1))), "shape"),
    (FAdd(1, allowed="all"), "allowed must be an array of booleans"),
    (FAdd(1, present=1), "present must be True or False"),
    (FEdit(1, drop="no"), "drop must be True or False"),
    (FEdit(1, scale=2.0), "scale must be a pair"),
    (local(reference="rows"), "reference must be"),
    (Trajectory(powers, 2, 1.0), "interval must be a pair"),
    (Trajectory("powers", 2), "function must be callable, got 'powers'"),
    (Trajectory(lambda X: 1j * X[:, None], 1), "coefficients as real numbers"),
    (Sampled(None), "function must be callable, got None"),
    (Sampled(lambda X: X.tolist()), "function must return members as an array"),
    (Rotations(), r"degrees must be .* got None: .* or interval=\(low, high\)"),
    (Shifts(), r"pixels must be .* got None: .* or interval=\(low, high\)"),
    (Union(FDrop(1), "fdrop"), "right must be an InvarianceOracle"),
    (Compose(None, FDrop(1)), "left"),
    (OnlyFor(3, [1]), "oracle"),
    (Discounted(FDrop, 0.5), "oracle"),
    (Protected(FAdd(1), None), "features must be an array"),
    (Protected(FAdd, [1]), "oracle must be an InvarianceOracle"),
    (Shared(3), "oracle must be an InvarianceOracle"),
]
REFUSED = [(*row, ValueError) for row in WRONG_VALUES] + [(*row, TypeError) for row in WRONG_TYPES]


@pytest.mark.parametrize("kind", sorted({type(oracle).__name__ for oracle, _, _ in REFUSED}))
def test_wrong_parameters_raise_before_any_work(kind, monkeypatch):
    monkeypatch.setattr("structinv.estimators.base.solve", None)
    for oracle, message, error in REFUSED:
        if type(oracle).__name__ != kind:
            continue
        model = InvariantLinearSVC(oracle)
        with pytest.raises(error, match=message):
            oracle.bind(X, Y)
        with pytest.raises(error, match=message):
            model.fit(X, Y)
        assert not [name for name in vars(model) if name.endswith("_")]


ASKED = {
    "support": lambda oracle: oracle.support(X, np.ones((1, D)), np.zeros(N, dtype=int)),
    "sample": lambda oracle: oracle.sample(X, 2, np.random.default_rng(0)),
    "changes": lambda oracle: oracle.changes(X),
    "tangents": lambda oracle: oracle.tangents(X),
}
# One wrong parameter of each class, and what it defines.
UNBOUND = [
    (FDrop(-1), "support sample"),
    (Box(-1.0), "support sample tangents"),
    (Ellipsoid(EYE, -1.0), "support sample tangents"),
    (local(radius=-1.0), "support sample tangents"),
    (Segment(1.5, 2.0), "support sample changes"),
    (Offset(-1.0), "support sample changes"),
    (Trajectory(powers, 2, (0.5, 1.0)), "support sample changes tangents"),
    (Rotations(10, order=2), "support sample changes tangents"),
    (Permutations((2, 4)), "support sample changes"),
]


@pytest.mark.parametrize(("oracle", "names"), UNBOUND)
def test_every_method_validates_parameters(oracle, names):
    for name in names.split():
        with pytest.raises(ValueError, match="must"):
            ASKED[name](oracle)


def test_labels_that_are_not_classes_raise():
    with pytest.raises(ValueError, match=r"among the classes \[0, 1\], got 5"):
        InvariantLinearSVC(Protected(FAdd(1).only_for([5]), [1])).fit(X, Y)


def test_oracles_without_tangents_have_no_derivative():
    with pytest.raises(NotImplementedError, match="FDrop does not define tangents"):
        TangentDerivative(FDrop(1), 1.0).bind(X)
