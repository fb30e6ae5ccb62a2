"""Plots as inline SVG: lines and histograms that follow the colors of a page."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .html import escaped

_WIDTH, _HEIGHT = 440, 280
_LEFT, _RIGHT, _BOTTOM = 62, 424, 232
# A line of the legend, and an average letter, in units of the picture.
_LEGEND_LINE, _LETTER = 18, 7.2
# Each color is readable on white and on black. Dashes and markers distinguish lines without colors.
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#8A8A8A")
_DASHES = ("", "7 4", "2 3", "9 3 2 3")
# Longer lines are thinned: a screen does not have more points.
_MOST_POINTS = 400
_MOST_MARKERS = 30
_MOST_DECADES = 6


@dataclass(frozen=True)
class Line:
    """Points of a plot that are connected.

    - `name`: name in the legend
    - `x, y`: coordinates of the points
    """

    name: str
    x: Sequence[float] | np.ndarray
    y: Sequence[float] | np.ndarray


def line_plot(
    lines: Sequence[Line],
    alt: str,
    *,
    x_label: str,
    y_label: str,
    log: bool = False,
    shares: bool = False,
    diagonal: bool = False,
) -> str:
    """Return a plot of lines.

    Points that are not finite are left out, and on a logarithmic scale those that are not positive.
    """
    shown = [_usable(line, log) for line in lines]
    shown = [line for line in shown if len(line.x)]
    if not shown:
        return ""
    x = np.concatenate([line.x for line in shown])
    y = np.concatenate([line.y for line in shown])
    across = _Axis.linear(x.min(), x.max(), _LEFT, _RIGHT)
    top = 14 + _LEGEND_LINE * len(_legend_lines(shown))
    if log:
        down = _Axis.logarithmic(y.min(), y.max(), _BOTTOM, top)
    elif shares:
        down = _Axis([0.0, 0.25, 0.5, 0.75, 1.0], 0.0, 1.0, _BOTTOM, top, form=lambda v: f"{v:.0%}")
    else:
        down = _Axis.linear(min(0.0, y.min()), y.max(), _BOTTOM, top)
    parts = [_frame(across, down, x_label, y_label), _legend(shown)]
    if diagonal:
        parts.append(_segment(across(0.0), down(0.0), across(1.0), down(1.0), 'stroke-dasharray="2 3"'))
    parts += [_drawn(line, place, across, down) for place, line in enumerate(shown)]
    return _svg(parts, alt)


def histogram(
    groups: dict[str, np.ndarray], alt: str, *, x_label: str, y_label: str, mark: float | None = None
) -> str:
    """Return overlaid histograms with common bins.

    Shapes: `groups` (n,).
    """
    finite = {name: values[np.isfinite(values)] for name, values in groups.items()}
    every = np.concatenate([*finite.values(), np.zeros(0)])
    if not len(every):
        return ""
    ends = every if mark is None else np.append(every, mark)
    edges = np.histogram_bin_edges(ends, bins=min(30, max(5, math.isqrt(len(every)))))
    lines = []
    for name, values in finite.items():
        counts = np.histogram(values, edges)[0]
        outline = np.concatenate([[0], np.repeat(counts, 2), [0]])
        lines.append(Line(name, np.repeat(edges, 2), outline))
    across = _Axis.linear(edges[0], edges[-1], _LEFT, _RIGHT)
    top = 14 + _LEGEND_LINE * len(_legend_lines(lines))
    down = _Axis.linear(0.0, max(1.0, *(float(np.max(line.y)) for line in lines)), _BOTTOM, top)
    parts = [_frame(across, down, x_label, y_label), _legend(lines)]
    for place, line in enumerate(lines):
        style = f'fill="{_COLORS[place % 4]}" fill-opacity="0.25"'
        parts.append(_path(line, place, across, down, style))
    if mark is not None:
        parts.append(_segment(across(mark), top, across(mark), _BOTTOM, 'stroke-width="2"'))
    return _svg(parts, alt)


@dataclass(frozen=True)
class _Axis:
    """Map from values to positions, with ticks."""

    ticks: list[float]
    low: float
    high: float
    start: float
    stop: float
    form: Callable[[float], str] = "{:.6g}".format
    log: bool = False

    @classmethod
    def linear(cls, low: float, high: float, start: float, stop: float) -> _Axis:
        """Return an axis with about five round ticks; the ends are ticks or values."""
        if high <= low:
            # A fixed reach is less than the rounding error of large numbers.
            reach = max(0.5, 1e-6 * abs(low))
            low, high = low - reach, low + reach
        step = _round_step((high - low) / 5)
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        return cls([k * step + 0.0 for k in range(first, last + 1)], low, high, start, stop)

    @classmethod
    def logarithmic(cls, low: float, high: float, start: float, stop: float) -> _Axis:
        """Return an axis whose ends and ticks are powers of ten."""
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        last = max(last, first + 1)
        every = -(-(last - first) // _MOST_DECADES)
        ticks = [10.0**power for power in range(first, last + 1, every)]
        ends = 10.0**first, 10.0**last
        return cls(ticks, *ends, start, stop, form=lambda value: f"{value:.0e}", log=True)

    def __call__(self, value: float) -> float:
        low, high = self.low, self.high
        if self.log:
            value, low, high = (math.log10(each) for each in (value, low, high))
        return self.start + (self.stop - self.start) * (value - low) / (high - low)


def _round_step(rough: float) -> float:
    """Return the smallest of 1, 2, 5 times a power of ten that is at least `rough`."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))


def _usable(line: Line, log: bool) -> Line:
    x, y = np.asarray(line.x, dtype=np.float64), np.asarray(line.y, dtype=np.float64)
    kept = np.isfinite(x) & np.isfinite(y) & ((y > 0) | (not log))
    places = np.flatnonzero(kept)
    if len(places) > _MOST_POINTS:
        places = places[np.unique(np.linspace(0, len(places) - 1, _MOST_POINTS).astype(int))]
    return Line(line.name, x[places], y[places])


def _drawn(line: Line, place: int, across: _Axis, down: _Axis) -> str:
    color = _COLORS[place % 4]
    parts = [_path(line, place, across, down, 'fill="none"')]
    if len(line.x) <= _MOST_MARKERS:
        parts += [
            f'<circle cx="{across(x):.1f}" cy="{down(y):.1f}" r="3" fill="{color}"/>'
            for x, y in zip(line.x, line.y, strict=True)
        ]
    return "".join(parts)


def _path(line: Line, place: int, across: _Axis, down: _Axis, style: str) -> str:
    points = " ".join(f"{across(x):.1f},{down(y):.1f}" for x, y in zip(line.x, line.y, strict=True))
    return f'<path d="M{points}" {_stroke(place)} {style}/>'


def _stroke(place: int) -> str:
    dashes = _DASHES[place % 4]
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'stroke="{_COLORS[place % 4]}" stroke-width="2"{dashed}'


def _legend_lines(lines: Sequence[Line]) -> list[list[tuple[int, str, float]]]:
    """Return the lines of the legend: place, name and position of each entry."""
    found: list[list[tuple[int, str, float]]] = []
    at = float(_RIGHT)
    for place, line in enumerate(lines):
        width = 34 + _LETTER * len(line.name)
        if at + width > _RIGHT:
            found.append([])
            at = float(_LEFT)
        found[-1].append((place, line.name, at))
        at += width + 10
    return found


def _legend(lines: Sequence[Line]) -> str:
    parts = []
    for level, entries in enumerate(_legend_lines(lines)):
        y = 14 + _LEGEND_LINE * level
        for place, name, x in entries:
            parts.append(f'<path d="M{x:.1f},{y} {x + 26:.1f},{y}" {_stroke(place)}/>')
            parts.append(_text(x + 32, y + 4, name, "start"))
    return "".join(parts)


def _frame(across: _Axis, down: _Axis, x_label: str, y_label: str) -> str:
    parts = [_segment(_LEFT, _BOTTOM, _RIGHT, _BOTTOM), _segment(_LEFT, _BOTTOM, _LEFT, down.stop)]
    for tick in across.ticks:
        x = across(tick)
        parts.append(_segment(x, _BOTTOM, x, _BOTTOM + 4))
        parts.append(_text(x, _BOTTOM + 18, across.form(tick), "middle"))
    for tick in down.ticks:
        y = down(tick)
        parts.append(_segment(_LEFT, y, _RIGHT, y, 'stroke-opacity="0.2"'))
        parts.append(_text(_LEFT - 6, y + 4, down.form(tick), "end"))
    parts.append(_text(0.5 * (_LEFT + _RIGHT), _BOTTOM + 40, x_label, "middle"))
    middle = 0.5 * (_BOTTOM + down.stop)
    parts.append(_text(14, middle, y_label, "middle", f' transform="rotate(-90 14 {middle:.1f})"'))
    return "".join(parts)


def _segment(x1: float, y1: float, x2: float, y2: float, more: str = "") -> str:
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="currentColor" {more}/>'


def _text(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="currentColor"{more}>'
        f"{escaped(text)}</text>"
    )


def _svg(parts: Sequence[str], alt: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{escaped(alt)}" style="width: 100%; max-width: {1.1 * _WIDTH:.0f}px; '
        f'font: 13px sans-serif"><title>{escaped(alt)}</title>{"".join(parts)}</svg>'
    )
