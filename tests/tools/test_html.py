"""What notebooks show: facts, and never a stranger's HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import zvcore
from zvcore.report import Report
from zvcore.stores.base import UnlistedError

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

HOSTILE = "<script>alert(1)</script>"


def test_a_group_that_does_not_tell_its_members_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on most web servers. An error would be all that a notebook shows."""
    group = zvcore.open(tmp_path / "g", "w", format="zarr3")

    def unlisted(*_: object) -> object:
        raise UnlistedError("this web server does not list what it has")

    monkeypatch.setattr(type(group.store), "list_dir", unlisted)
    monkeypatch.setattr(type(group.store), "list", unlisted)
    assert "does not list" in group._repr_html_()


def test_an_array_tells_what_it_is(tmp_path):
    array = zvcore.create(tmp_path / "a", format="zarr3", data=np.zeros((4, 6), "u2"), chunks=(2, 3), codec="gzip")
    assert (array.info["shape"], array.info["dtype"], array.info["size"]) == ((4, 6), "uint16", "48 B")
    assert "Gzip" in array.info["codec"]
    shown = array._repr_html_()
    assert "uint16" in shown and "(2, 3)" in shown


def test_texts_of_strangers_are_escaped(tmp_path):
    group = zvcore.open(tmp_path / "<b>", mode="w", format="zarr3")
    group.create_dataset("<i>x", shape=(1,), dtype="u1")
    report = Report()
    report.add(HOSTILE, HOSTILE)
    report.lose(HOSTILE, HOSTILE)
    report.count(HOSTILE)
    for shown in (group._repr_html_(), group["<i>x"]._repr_html_(), report._repr_html_()):
        assert "<script" not in shown and "<i>" not in shown and "<b>/" not in shown
    assert "&lt;i&gt;x" in group._repr_html_()


def test_long_lists_are_cut():
    report = Report()
    for number in range(1000):
        report.add(f"chunk {number}", "x" * 10_000)
    assert len(report._repr_html_()) < 20_000
