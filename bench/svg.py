"""Two kinds of plots as SVG, small enough to read as text."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["bars", "lines"]

GREEN, RED, GREY = "#2a7f5f", "#b5423c", "#777777"
STYLE = "<style>text{font:12px sans-serif;fill:#333}.t{font-size:14px;font-weight:bold}.g{stroke:#ddd}</style>"
COLORS = ("#2a7f5f", "#b5423c", "#3b6ea5", "#a0742c", "#7a4d94")


def document(width: int, height: int, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
    return "\n".join([head, STYLE, f'<rect width="{width}" height="{height}" fill="white"/>', *parts, "</svg>\n"])


def text(x: float, y: float, words: str, anchor: str = "start", kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}"{named}>{escape(words)}</text>'


def bars(title: str, rows: Sequence[tuple[str, float, str]]) -> str:
    """Ratios on a logarithmic axis around 1: to the right zvcore is faster, to the left slower. (label, ratio, note)"""
    step, left, span = 18, 380, 360
    height = 58 + step * len(rows)
    reach = max([2.0, *(max(r, 1 / r) for _, r, _ in rows)])
    middle = left + span / 3
    unit = (span * 2 / 3 - 10) / math.log10(reach)
    parts = [text(10, 20, title, kind="t"), text(middle, 40, "1", "middle")]
    for power in range(1, int(math.log10(reach)) + 1):
        x = middle + unit * power
        parts.append(f'<line class="g" x1="{x:.0f}" y1="46" x2="{x:.0f}" y2="{height - 8}"/>')
        parts.append(text(x, 40, f"{10**power}", "middle"))
    for number, (label, ratio, note) in enumerate(rows):
        y = 50 + step * number
        length = max(-(span / 3 - 5), unit * math.log10(ratio))
        x, width = (middle, length) if length >= 0 else (middle + length, -length)
        parts.append(text(left - 8, y + 11, label, "end"))
        color = GREEN if ratio >= 1 else RED
        parts.append(f'<rect x="{x:.1f}" y="{y}" width="{max(width, 1):.1f}" height="{step - 4}" fill="{color}"/>')
        parts.append(text(max(x + width, middle) + 5, y + 11, f"{ratio:.2f} {note}"))
    parts.append(f'<line x1="{middle:.0f}" y1="46" x2="{middle:.0f}" y2="{height - 8}" stroke="{GREY}"/>')
    return document(left + span + 190, height, parts)


def lines(title: str, x_name: str, y_name: str, series: Sequence[tuple[str, Sequence[float], Sequence[float]]]) -> str:
    """Lines with both axes logarithmic: (label, x, y) each."""
    left, top, width, height = 70, 40, 380, 240
    xs = [math.log10(x) for _, found, _ in series for x in found]
    ys = [math.log10(y) for _, _, found in series for y in found if y > 0]
    low_x, high_x = min(xs), max(max(xs), min(xs) + 0.1)
    low_y, high_y = math.floor(min(ys)), max(math.ceil(max(ys)), math.floor(min(ys)) + 1)

    def place(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - low_x) / (high_x - low_x)
        up = (math.log10(y) - low_y) / (high_y - low_y)
        return left + width * across, top + height * (1 - up)

    parts = [text(10, 20, title, kind="t"), text(left + width / 2, top + height + 34, x_name, "middle")]
    parts.append(text(8, top - 6, y_name))
    for power in range(low_y, high_y + 1):
        y = place(10**low_x, 10**power)[1]
        parts.append(f'<line class="g" x1="{left}" y1="{y:.0f}" x2="{left + width}" y2="{y:.0f}"/>')
        parts.append(text(left - 6, y + 4, f"{10.0**power:g}", "end"))
    for x in sorted({x for _, found, _ in series for x in found}):
        parts.append(text(place(x, 10**low_y)[0], top + height + 16, f"{x:g}", "middle"))
    for number, (label, across, up) in enumerate(series):
        color = COLORS[number % len(COLORS)]
        points = [place(x, y) for x, y in zip(across, up, strict=True) if y > 0]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in points]
        parts.append(text(left + 10, top + 14 + 15 * number, label))
        parts.append(f'<rect x="{left + 2}" y="{top + 6 + 15 * number}" width="5" height="8" fill="{color}"/>')
    return document(left + width + 30, top + height + 46, parts)
