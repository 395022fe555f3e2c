"""Folders of images are opened without looking at more than that takes, and are what a longer look would tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.stack import names as stack_names
from zvcore.stack import pictures

if TYPE_CHECKING:
    from pathlib import Path

imagecodecs = pytest.importorskip("imagecodecs")
pytest.importorskip("simplejpeg")


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
@pytest.mark.parametrize("clear", [False, True])
def test_what_pictures_are_like_is_told_by_their_headers(tmp_path: Path, mode: str, clear: bool) -> None:
    """Or they are decoded, where that does not tell it."""
    image = pytest.importorskip("PIL.Image")
    levels = np.arange(256, dtype=np.uint16).reshape(16, 16)
    for number in range(3):
        one = image.fromarray(levels * 200) if mode == "I;16" else image.fromarray(levels.astype("u1")).convert(mode)
        options = {"transparency": (7, 7, 7) if mode == "RGB" else 7} if clear and mode in ("L", "P", "RGB") else {}
        one.save(tmp_path / f"a{number}.png", **options)
    array = zvcore.open(tmp_path)
    wanted = imagecodecs.png_decode((tmp_path / "a1.png").read_bytes())
    assert array.shape == (3, *wanted.shape)
    assert array.dtype == wanted.dtype
    assert (array[1] == wanted).all()


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_what_jpegs_are_like_is_told_by_their_headers(tmp_path: Path, mode: str) -> None:
    image = pytest.importorskip("PIL.Image")
    for number in range(3):
        image.fromarray(np.full((16, 24), 90, "u1")).convert(mode).save(tmp_path / f"a{number}.jpg")
    array = zvcore.open(tmp_path)
    assert array.shape == (3, 16, 24) if mode == "L" else (3, 16, 24, 3)
    assert abs(array[2].astype(int) - 90).max() < 3


def test_the_first_picture_is_not_decoded_to_read_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(6):
        (tmp_path / f"a{number}.png").write_bytes(imagecodecs.png_encode(np.full((8, 9), number, "u1")))
    decoded: list[str] = []
    own = pictures.Picture._decoded
    monkeypatch.setattr(pictures.Picture, "_decoded", lambda self, like: decoded.append(self.key) or own(self, like))
    array = zvcore.open(tmp_path)
    assert not decoded
    array[4]
    assert len(decoded) == 1


@pytest.mark.parametrize(
    "names",
    [["a1.png", "a2.png", "a10.png"], ["a01.png", "a10.png", "a02.png"], ["a1b2.png", "a2b1.png", "a1b1.png"],
     ["a1.png", "b2.png"], ["a1.png", "a2.PNG"], ["a.png", "b.png"], ["a+1.png", "a+2.png"], ["1.tif", "2.tiff"],
     ["a1.png", "a3.png", "a4.png", "a9.png"], ["a001.png", "a0002.png"], ["a(1).jpg", "a(3).jpg"], ["a1.png"],
     ["9" * 20 + ".png", "8" * 20 + ".png"], ["a1x2.png", "a2x2.png", "a4x2.png"]],
)  # fmt: skip
def test_names_of_one_form_are_understood_as_all_others(names: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def understood() -> tuple[Any, ...]:
        images = stack_names.images_in(reversed(names))
        return images, stack_names.belong_together(names), stack_names.missing_numbers(images)

    quickly = understood()
    monkeypatch.setattr(stack_names, "_are_of_one_form", lambda names: False)
    assert quickly == understood()
