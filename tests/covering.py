"""Products of settings: the part that every run tests, and the rest, which is marked slow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, product
from typing import Any

import pytest


def pairs(*factors: Sequence[Any]) -> list[Any]:
    """The product of several factors, in which rows that no pair of values needs are slow."""
    if len(factors) < 3:
        raise ValueError("pairs of two factors are their whole product; use `slow_unless`")
    rows = list(product(*(range(len(factor)) for factor in factors)))
    held = {row: _pairs_of(row) for row in rows}
    left, chosen = set().union(*held.values()), set()
    while left:
        # The last of equals: neighbors in the product share most of their pairs.
        best = max(rows, key=lambda row: (len(held[row] & left), row))
        chosen.add(best)
        left -= held[best]
    values = [tuple(factor[i] for factor, i in zip(factors, row, strict=True)) for row in rows]
    keep = iter([row in chosen for row in rows])
    return slow_unless(lambda *_: next(keep), values)


def _pairs_of(row: tuple[int, ...]) -> frozenset[tuple[tuple[int, int], ...]]:
    return frozenset(combinations(enumerate(row), 2))


def slow_unless(fast: Callable[..., bool], rows: Sequence[tuple[Any, ...]]) -> list[Any]:
    """The same rows, those marked slow for which a function of their values is false."""
    return [pytest.param(*row, marks=() if fast(*row) else pytest.mark.slow) for row in rows]


def each_once(*factors: Sequence[Any]) -> list[Any]:
    """The product of several factors, in which rows are slow that no value needs to occur once."""
    sizes = [len(factor) for factor in factors]
    chosen = {tuple(i % size for size in sizes) for i in range(max(sizes))}
    rows = product(*map(range, sizes))
    keep = iter([row in chosen for row in rows])
    return slow_unless(lambda *_: next(keep), list(product(*factors)))
