"""Models in files that are trained further after they have been loaded."""

import numpy as np
import pytest

import structinv
from structinv import InvariantLinearSVC
from structinv.datasets import make_mail_like
from structinv.oracles import FDrop, Shifts

from .problems import two_classes


def test_no_model_without_planes_goes_on_from_them(tmp_path):
    X, y = make_mail_like(100, 100, random_state=0)
    model = InvariantLinearSVC(FDrop(1), solver="pegasos", C=0.01, tol=0.1, random_state=0).fit(X, y)
    structinv.save(model, tmp_path / "model")
    with pytest.raises(ValueError, match="planes=True"):
        structinv.load(tmp_path / "model").partial_fit(X, y)


def test_a_stream_goes_on_from_a_file(tmp_path):
    X, y = make_mail_like(100, 100, random_state=0)
    model = InvariantLinearSVC(FDrop(1), solver="pegasos", random_state=0)
    model.partial_fit(X[:50], y[:50], classes=np.unique(y))
    structinv.save(model, tmp_path / "model")
    again = structinv.load(tmp_path / "model")
    model.partial_fit(X[50:], y[50:])
    again.partial_fit(X[50:], y[50:])
    np.testing.assert_array_equal(again.coef_, model.coef_)


def test_planes_of_members_are_stored_with_their_points(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.random((30, 9)), np.arange(30) % 3
    model = InvariantLinearSVC(Shifts(1), C=0.1, warm_start=True, random_state=0).fit(X, y)
    structinv.save(model, tmp_path / "model", planes=True)
    again = structinv.load(tmp_path / "model")
    assert again.fit(X, y).n_iter_ == 0


def test_a_path_among_parameters_is_a_string(tmp_path):
    X, y = two_classes()
    model = InvariantLinearSVC(checkpoint=tmp_path / "fit.npz", random_state=0).fit(X, y)
    structinv.save(model, tmp_path / "model")
    assert structinv.load(tmp_path / "model").checkpoint == str(tmp_path / "fit.npz")
