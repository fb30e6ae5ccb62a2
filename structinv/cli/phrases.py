"""Perturbations in words, such as "up to 5 deleted words of spam"."""

from __future__ import annotations

from ..estimators.target_labels import label_name
from ..inspection.detection import DONE
from ..oracles import Box, FAdd, FDrop, FEdit, FScale, Identity, InvarianceOracle, TokenEdits
from ..oracles.combinators import OnlyFor
from ..utils.summaries import number_of, one_line
from ..utils.visible import listed


def phrase(oracle: InvarianceOracle) -> str:
    """Return the perturbations of an oracle in words.

    Oracles without a phrase are named with their parameters.
    """
    if isinstance(oracle, OnlyFor):
        return f"{phrase(oracle.oracle)} of {listed(map(label_name, oracle.listed()))}"
    if isinstance(oracle, TokenEdits):
        return f"up to {number_of(oracle.max_changes, f'{DONE[oracle.edit]} word')}"
    if isinstance(oracle, FScale):
        factors = f"{oracle.low:g} to {oracle.high:g}"
        return f"up to {number_of(oracle.max_changes, 'feature')} scaled by {factors}"
    if isinstance(oracle, (FDrop, FAdd, FEdit)):
        return f"up to {number_of(oracle.max_changes, f'{DONE[type(oracle)]} feature')}"
    if isinstance(oracle, Box) and isinstance(oracle.radius, (int, float)):
        return f"changes of each value by up to {oracle.radius:g}"
    return "no perturbations" if isinstance(oracle, Identity) else one_line(oracle)
