"""What a structure of users' own must implement."""

from __future__ import annotations

import numpy as np
import pytest

from structinv.structures import Sequence


def test_learning_structure_must_implement_summaries():
    class Learning(Sequence):
        def prepared(self, classes, codes, layout):
            return self

    with pytest.raises(TypeError, match="Learning must implement `summary` and `prepared_by`"):
        Learning().prepared_by(np.arange(2), [None])
