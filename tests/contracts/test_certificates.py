"""No perturbation violates a certificate, and exact oracles attain it."""

from functools import cache

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

from structinv.oracles.third_party import bind

from ..certificates.cases import distance, fitted, made, margins_of
from ..covering import slow_unless
from ..oracles.cases import CASES, D, rows
from ..oracles.random_edits import EDITS, beaten

every_case = pytest.mark.parametrize("case", CASES, ids=str)


def all_members(bound, points):
    """Whether the points are members, as far as the oracle can tell."""
    try:
        return all(bound.contains(row, z) for row, z in enumerate(points))
    except NotImplementedError:
        return True


def lowest_by_definition(case, model, x, label):
    """Return the worst-case margin, from the definition of the support function."""
    coef, intercept = model.coef_, model.intercept_
    if len(coef) == 1:
        coef, intercept = np.vstack([0 * coef, coef]), np.r_[0.0, intercept]
    margins = []
    for competitor in np.delete(np.arange(len(coef)), label):
        gain = case.support_expression(x, label, cp.Constant(coef[competitor] - coef[label])).value
        margins.append(intercept[label] - intercept[competitor] - gain)
    return min(margins)


# The oracle of the case "only_for" names the third label.
@pytest.mark.parametrize(
    ("case", "n_classes"),
    slow_unless(
        lambda case, n_classes: case.name == "only_for" or n_classes == 2 + CASES.index(case) % 2,
        [(case, k) for case in CASES for k in (2, 3) if (case.name, k) != ("only_for", 2)],
    ),
    ids=str,
)
def test_samples_of_every_oracle_stay_above_its_certificate(case, n_classes):
    check_samples(case, n_classes)


def check_samples(case, n_classes):
    X, y = rows(4)
    y = y % n_classes
    rng = np.random.default_rng(4)
    n_outputs = 1 if n_classes == 2 else 3
    coef, intercept = rng.standard_normal((n_outputs, D)), rng.standard_normal(n_outputs)
    model = made(coef, intercept, case.oracle)
    certificate = model.certify(X, y)
    bound = case.oracle.bind(X, y)
    members = bound.sample(slice(None), 300, rng)
    sampled = np.array([margins_of(model, Z, label).min() for Z, label in zip(members, y, strict=True)])
    assert np.all(certificate.margins <= sampled)
    assert np.all(certificate.exact)
    np.testing.assert_allclose(certificate.margins, certificate.attacked, rtol=0, atol=1e-12)
    defined = [lowest_by_definition(case, model, x, label) for x, label in zip(X, y, strict=True)]
    np.testing.assert_allclose(certificate.attacked, defined, rtol=0, atol=1e-9)

    worst = model.worst_case(X, y)
    assert all_members(bound, worst)
    reached = [margins_of(model, z[None], label)[0] for z, label in zip(worst, y, strict=True)]
    np.testing.assert_allclose(reached, certificate.attacked, rtol=0, atol=1e-12)
    if case.oracle.finite and not case.graded:
        lists = bound.oracle.orbit(X) if not case.oracle.depends_on_label else members
        listed = [margins_of(model, Z, label).min() for Z, label in zip(lists, y, strict=True)]
        np.testing.assert_allclose(certificate.attacked, listed, rtol=0, atol=1e-12)
    if case.sparse:
        sparse = model.certify(sp.csr_matrix(X), y)
        np.testing.assert_allclose(sparse.attacked, certificate.attacked, rtol=0, atol=1e-12)
        again = model.worst_case(sp.csr_matrix(X), y).toarray()
        assert all_members(bound, again)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@every_case
def test_no_random_edit_beats_a_certificate(case):
    """Members that are drawn independently of `support` never fall below a margin."""
    made, below, _ = beaten(case, 2400, seed=1)
    assert made >= 2400
    assert below == 0


def test_every_oracle_has_edits():
    assert {case.name for case in CASES} == set(EDITS)


def has_list(oracle, X, y):
    """Whether kernel machines have worst cases: covers with grades have none."""
    changes = bind(oracle, X, y).changes()
    try:
        return changes is not None and isinstance(changes.grades(), np.ndarray | None)
    except NotImplementedError:
        return False


@cache
def attacked(kind, n_classes):
    """A model of rows with zeros, and the rows."""
    rng, y = np.random.default_rng(n_classes), np.arange(12) % n_classes
    X = rng.standard_normal((12, D)) * (rng.random((12, D)) < 0.8)
    return fitted(kind, X, y), X, y


# Cases have two classes or more where their samples above have not.
@pytest.mark.parametrize(
    ("case", "more"),
    slow_unless(
        lambda case, more: case.name == "only_for" or more == (CASES.index(case) % 2 == 0),
        [(case, more) for case in CASES for more in (False, True) if more or case.name != "only_for"],
    ),
    ids=str,
)
def test_the_attacked_margin_is_reached_at_the_worst_case_of_every_oracle(case, more):
    for kind, n_classes in (("linear", 3), ("kernel", 4)) if more else (("linear", 2), ("kernel", 2)):
        model, X, y = attacked(kind, n_classes)
        if kind == "linear" or has_list(case.oracle, X, y):
            assert distance(model, case.oracle, X, y) <= 1.0
