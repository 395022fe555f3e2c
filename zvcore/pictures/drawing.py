"""Bars and words, drawn as SVG or as pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["Drawing"]

Colour = tuple[int, int, int]

# Capital letters of 3 x 5 dots: five rows each, a digit per row.
_FONT = {
    "A": "25755", "B": "65656", "C": "34443", "D": "65556", "E": "74647", "F": "74644", "G": "34553", "H": "55755",
    "I": "72227", "J": "11152", "K": "55655", "L": "44447", "M": "57755", "N": "65555", "O": "25552", "P": "65644",
    "Q": "25563", "R": "65655", "S": "34216", "T": "72222", "U": "55557", "V": "55552", "W": "55775", "X": "55255",
    "Y": "55222", "Z": "71247", "0": "75557", "1": "26227", "2": "71747", "3": "71717", "4": "55711", "5": "74717",
    "6": "74757", "7": "71111", "8": "75757", "9": "75717", ".": "00002", ",": "00024", ":": "02020", "-": "00700",
    "/": "11244", "(": "24442", ")": "21112", "%": "51245", "_": "00007", "+": "02720",
}  # fmt: skip
_DOT = 2


class Drawing:
    """A sheet of so many pixels; what is drawn later lies on top."""

    def __init__(self, width: int, height: int) -> None:
        self.width = width
        self.height = height
        self._boxes: list[tuple[float, float, float, float, Colour]] = []
        self._words: list[tuple[float, float, str, str, Colour]] = []

    def box(self, x: float, y: float, width: float, height: float, colour: Colour) -> None:
        self._boxes.append((x, y, width, height, colour))

    def words(self, x: float, y: float, text: str, anchor: str = "start", colour: Colour = (40, 40, 40)) -> None:
        """Text whose upper edge is at `y` and whose "start", "middle" or "end" is at `x`."""
        self._words.append((x, y, text, anchor, colour))

    def svg(self) -> bytes:
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'width="{self.width}" height="{self.height}" font-family="sans-serif" font-size="13">',
            f'<rect width="{self.width}" height="{self.height}" fill="#fff"/>',
        ]
        for x, y, width, height, colour in self._boxes:
            place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
            parts.append(f'<rect {place} fill="rgb{colour}"/>')
        for x, y, text, anchor, colour in self._words:
            place = f'x="{x:.1f}" y="{y + 11:.1f}" text-anchor="{anchor}"'
            parts.append(f'<text {place} fill="rgb{colour}">{escape(text)}</text>')
        return "\n".join([*parts, "</svg>\n"]).encode()

    def pixels(self) -> npt.NDArray[np.uint8]:
        sheet = np.full((self.height, self.width, 3), 255, np.uint8)
        for x, y, width, height, colour in self._boxes:
            left, top = round(x), round(y)
            sheet[max(top, 0) : max(round(y + height), 0), max(left, 0) : max(round(x + width), 0)] = colour
        for x, y, text, anchor, colour in self._words:
            length = _DOT * 4 * len(text)
            left = round(x - {"start": 0, "middle": length / 2, "end": length}[anchor])
            for place, letter in enumerate(text.upper()):
                _stamp(sheet, left + place * 4 * _DOT, round(y), letter, colour)
        return sheet


def _stamp(sheet: npt.NDArray[np.uint8], left: int, top: int, letter: str, colour: Colour) -> None:
    for row, bits in enumerate(_FONT.get(letter, "00000")):
        for column in range(3):
            if int(bits) >> (2 - column) & 1:
                y, x = top + row * _DOT, left + column * _DOT
                sheet[max(y, 0) : max(y + _DOT, 0), max(x, 0) : max(x + _DOT, 0)] = colour
