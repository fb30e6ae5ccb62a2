"""What older files hold in another form."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..utils.matrices import dense

# Up to this format the weights of a function of several outputs lay output by output.
LAST_BY_OUTPUT = 2


def by_feature(learned: dict[str, Any]) -> dict[str, Any]:
    """What a linear machine of several outputs has learned, with its functions by feature.

    Parameters
    ----------
    learned : dict
        Attributes of an estimator from a file of format 2 or before; those of others stay as they are.
    """
    coef, solution = learned.get("coef_"), learned.get("solution_")
    if not isinstance(coef, np.ndarray) or coef.ndim != 2 or len(coef) == 1:
        return learned
    changed, n_outputs = dict(learned), len(coef)
    if solution is not None:
        planes = solution.planes
        if planes is not None and _is_flat(planes.normals):
            planes = replace(planes, normals=_turned(planes.normals, n_outputs))
        changed["solution_"] = replace(
            solution, f=_turned(solution.f[None], n_outputs)[0], planes=planes
        )
    stream = learned.get("_stream_")
    if stream is not None:
        sums = stream.sums
        f, mean = (_turned(each[None], n_outputs)[0] for each in (sums.f, sums.mean))
        changed["_stream_"] = replace(stream, sums=replace(sums, f=f, mean=mean))
    return changed


def _is_flat(normals: Any) -> bool:
    return isinstance(normals, np.ndarray) or sp.issparse(normals)


def _turned(rows: Any, n_outputs: int) -> np.ndarray:
    """Rows (m, n_outputs x n), each output after the other, with those of a feature together."""
    written = dense(rows)
    return written.reshape(len(written), n_outputs, -1).swapaxes(1, 2).reshape(len(written), -1)
