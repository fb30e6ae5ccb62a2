"""Templates and responses: what is drawn, averaged and refused."""

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import norm

from structinv.embeddings import OrbitFourier
from structinv.embeddings.responses import TEMPLATES, Responses, mean_waves, unit_templates
from structinv.kernels import Gaussian
from structinv.kernels.radial import Spectrum, normals
from structinv.oracles import Identity
from structinv.oracles.listed_changes import averaged

from ..kernels.cases import FEW
from ..oracles.cases import ORDERS, D, Reorderings
from .cases import rows


@pytest.mark.parametrize("size", [1.0, 1e3, 1e5, 1e6, 1e8, 1e15])
def test_cosines_and_sines_equal_numpy(size):
    law = averaged(Reorderings(ORDERS), D)
    templates = size * rows(4, seed=1)
    X = np.random.default_rng(2).standard_normal((50, D))
    found = mean_waves(Responses(law, templates, Identity()), X, 8, 0.0) * 2.0
    # Products by another order of sums differ in their last bits, which large ones feel.
    angles = (X @ law.adjoint(templates).reshape(-1, D).T).reshape(50, -1, 4)
    waves = np.stack([np.cos(angles), np.sin(angles)], axis=3)
    truth = np.einsum("k,nkpc->npc", law.weights, waves).reshape(50, 8)
    np.testing.assert_allclose(found, truth, atol=1e-14 + 1e-15 * size * D)


@pytest.mark.parametrize("d", [1, 2, 5, 8])
def test_directions_are_orthogonal_in_blocks(d):
    found = unit_templates("orthogonal", 2 * d, d, np.random.default_rng(0))
    np.testing.assert_allclose(found[:d] @ found[:d].T, np.eye(d), atol=1e-12)
    np.testing.assert_allclose(found[d:] @ found[d:].T, np.eye(d), atol=1e-12)


@pytest.mark.parametrize("kind", TEMPLATES)
@pytest.mark.parametrize("d", [1, 3, 8])
def test_templates_of_a_gaussian_have_normal_coordinates(kind, d):
    parts = [TEMPLATES[kind](normals(2.0), 8, d, np.random.default_rng(seed)) for seed in range(500)]
    drawn = 2.0 * np.concatenate(parts)
    grid = np.linspace(-2, 2, 9)
    shares = np.mean(drawn[:, :, None] <= grid, axis=(0, 1))
    np.testing.assert_allclose(shares, norm.cdf(grid), atol=0.03)


class Drawn(Spectrum):
    """Gives what it is told to give."""

    def __init__(self, frequencies, scales):
        self.found = frequencies, scales

    def n_uniforms(self, n_features):
        return n_features

    def frequencies(self, uniforms, n_features):
        return self.found[0](uniforms)

    def scales(self, uniforms):
        return self.found[1](uniforms)


class Spectral(Gaussian):
    def __init__(self, frequencies=ndtri, scales=np.ones_like):
        self.frequencies = frequencies
        self.scales = scales

    sigma = 1.0

    def spectral_law(self):
        return Drawn(self.frequencies, self.scales)


@pytest.mark.parametrize("templates", ["gaussian", "orthogonal"])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda u: u[:-1], r"must return {what} of shape"),
        (lambda u: np.full_like(u, np.nan), r"returned {what} that are not finite"),
        (lambda u: u.tolist(), r"must return {what} as an array"),
    ],
)
def test_frequencies_of_a_spectrum_are_checked(templates, wrong, message):
    what = "scales" if templates == "orthogonal" else "frequencies"
    features = OrbitFourier(Identity(), Spectral(**{what: wrong}), 8, templates=templates)
    message = message.format(what=what)
    with pytest.raises((TypeError, ValueError), match=rf"Drawn.{what} {message}"):
        features.fit(FEW)
    features.set_params(kernel=Spectral()).fit(FEW)
    whole = OrbitFourier(Identity(), Gaussian(), 8, templates=templates).fit(FEW)
    np.testing.assert_allclose(features.templates_, whole.templates_, rtol=1e-12)
