"""Groups that say what is in them: members are found by that, at every depth, and it is held against the members."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
import zarr

import zvcore
from zvcore.errors import NotFoundError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore:Consolidated metadata")


@pytest.fixture
def consolidated(tmp_path: Path) -> Path:
    """What zarr-python makes of groups in groups, of which one was consolidated before."""
    root = zarr.create_group(tmp_path)
    for name in ("raw/scan", "raw/deep/er/label", "rawer/other", "plain"):
        root.create_array(name, shape=(4,), dtype="u2", chunks=(2,))[...] = 5
    root.create_group("empty")
    zarr.consolidate_metadata(tmp_path, path="raw/deep")
    zarr.consolidate_metadata(tmp_path)
    return tmp_path


def test_groups_in_groups_have_their_members(consolidated: Path) -> None:
    group = zvcore.open(consolidated)
    assert list(group) == ["empty", "plain", "raw", "rawer"]
    assert list(group["raw"]) == ["deep", "scan"]
    assert list(group["rawer"]) == ["other"]
    assert list(group["empty"]) == []
    assert (group["raw"]["scan"][...] == 5).all()
    assert "scan" in group["raw"]
    assert "other" not in group["raw"]
    for inner in (group["raw/deep"], group["raw"]["deep"]):
        assert list(inner) == ["er"]
        assert list(inner["er"]) == ["label"]
        assert (inner["er/label"][...] == 5).all()
        assert (inner["er"]["label"][...] == 5).all()
    with pytest.raises(NotFoundError):
        group["raw"]["er"]


def test_members_of_groups_in_groups_are_not_looked_for_in_the_store(consolidated: Path) -> None:
    for folder, _, names in os.walk(consolidated):
        if "zarr.json" in names and folder != str(consolidated):
            os.remove(os.path.join(folder, "zarr.json"))
    assert (zvcore.open(consolidated)["raw"]["deep"]["er"]["label"][...] == 5).all()


def test_a_group_of_which_nothing_is_said_is_looked_at_itself(consolidated: Path) -> None:
    """Others may write members without what is in them."""
    document = json.loads((consolidated / "zarr.json").read_text())
    told = document["consolidated_metadata"]["metadata"]
    for name in list(told):
        if "/" in name:
            del told[name]
        else:
            told[name].pop("consolidated_metadata", None)
    (consolidated / "zarr.json").write_text(json.dumps(document))
    assert list(zvcore.open(consolidated)["raw"]) == ["deep", "scan"]
