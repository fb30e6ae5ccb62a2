"""What all estimators say of parameters and labels, whichever of them is asked."""

import numpy as np
import pytest

from structinv.estimators import REGISTRY

X = np.random.default_rng(0).standard_normal((12, 4))
Y = np.arange(12) % 2

BOOLEANS = [
    (kind, name)
    for kind in REGISTRY.values()
    for name, default in kind().get_params(deep=False).items()
    if isinstance(default, bool)
]


@pytest.mark.parametrize("value", ["no", 1, 0.0, None])
@pytest.mark.parametrize(("kind", "name"), BOOLEANS)
def test_a_switch_is_true_or_false(kind, name, value):
    with pytest.raises(TypeError, match=f"{name} must be True or False, got {value!r}"):
        kind(**{name: value}).fit(X, Y)


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize(("kind", "name"), BOOLEANS)
def test_a_switch_may_come_out_of_an_array(kind, name, value):
    plain, other = (kind(**{name: kept(value)}, random_state=0).fit(X, Y) for kept in (bool, np.bool_))
    np.testing.assert_array_equal(plain.predict(X), other.predict(X))
