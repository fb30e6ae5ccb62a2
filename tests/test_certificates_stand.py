"""No certificate is beaten: members drawn independently of `support` never fall below a margin."""

import pytest

from .covering import one_in
from .oracle_cases import CASES
from .random_edits import EDITS, beaten


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("edits", [200, pytest.param(2000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", one_in(2, CASES), ids=str)
def test_no_random_edit_beats_a_certificate(case, edits):
    made, below, _ = beaten(case, edits, seed=1)
    assert made >= edits
    assert below == 0


def test_every_oracle_has_edits():
    assert {case.name for case in CASES} == set(EDITS)
