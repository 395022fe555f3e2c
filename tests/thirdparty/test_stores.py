"""A store from a distribution of its own: installed by pip, found by its scheme, used like the first party's."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import numpy as np
import pytest

import zvcore
from zvcore.errors import NotFoundError, PluginError, UnsupportedError
from zvcore.stores import LocalStore, open_store
from zvcore.stores.opening import schemes
from zvcore.testing import check_store

VALUES = np.arange(60 * 50, dtype="u2").reshape(60, 50)
FORMATS = {
    "zarr3": {"chunks": (10, 25), "shards": (30, 50)},
    "n5": {"chunks": (10, 25)},
}


@pytest.fixture
def options(third_party, tmp_path):
    return {"file": tmp_path / "objects.db"}


def test_it_does_what_every_store_does(options):
    check_store(lambda mode: schemes.find("sqlite")("sqlite://a", mode, dict(options)))


def test_it_is_missed_when_it_is_not_installed(third_party, tmp_path):
    third_party.remove()
    with pytest.raises(UnsupportedError, match="nothing that is installed opens sqlite://"):
        open_store("sqlite://a", "w", {"file": tmp_path / "x"})


def test_its_options_reach_it_and_others_are_refused(options, tmp_path):
    with pytest.raises(ValueError, match="needs storage_options"):
        zvcore.open("sqlite://a")
    with pytest.raises(ValueError, match="takes the storage_options file, timeout, not 'endpoint'"):
        zvcore.open("sqlite://a", storage_options={**options, "endpoint": "x"})
    with pytest.raises(NotFoundError):
        zvcore.open("sqlite://a", storage_options=options)


@pytest.mark.parametrize("format", FORMATS)
def test_arrays_are_made_opened_changed_verified_and_moved(options, format):
    a = zvcore.create(
        "sqlite://a/b", format=format, shape=(60, 50), dtype="u2", storage_options=options, **FORMATS[format]
    )
    a[...] = VALUES
    a[3:17, 5:40] = 7
    expected = VALUES.copy()
    expected[3:17, 5:40] = 7
    found = zvcore.open("sqlite://a/b", storage_options=options)
    assert found.format == format
    assert (found[...] == expected).all()
    assert (pickle.loads(pickle.dumps(found))[...] == expected).all()
    report = zvcore.verify("sqlite://a/b", storage_options=options)
    assert report.ok
    assert report.counts["chunks" if format == "zarr3" else "blocks"] == 12
    assert zvcore.inspect("sqlite://a/b", storage_options=options)["format"] == format


def test_conversions_there_and_back_and_within(options, tmp_path):
    source = zvcore.create(tmp_path / "a", format="zarr3", shape=(60, 50), dtype="u2", chunks=(10, 25))
    source[...] = VALUES
    given = {"verify": True, "storage_options": options}
    assert zvcore.convert(tmp_path / "a", "sqlite://b", format="n5", **given).verified
    assert zvcore.convert("sqlite://b", "sqlite://c", format="zarr3", shards=(20, 50), **given).verified
    assert zvcore.convert("sqlite://c", tmp_path / "d", format="zarr3", **given).verified
    assert (zvcore.open(tmp_path / "d")[...] == VALUES).all()


def test_names_that_two_claim_and_plugins_that_do_not_load(third_party, tmp_path):
    point = third_party.folder / "other-1.0.dist-info"
    point.mkdir()
    (point / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    try:
        (point / "entry_points.txt").write_text("[zvcore.stores]\nsqlite = other:nothing\nlost = no_such:thing\n")
        third_party.install()
        with pytest.raises(PluginError, match=r"the store 'lost' of other cannot be loaded from no_such:thing: Module"):
            open_store("lost://x")
        with pytest.raises(PluginError, match=r"'sqlite' is provided by .*register_scheme"):
            open_store("sqlite://x")
        assert isinstance(open_store(f"file://{tmp_path}"), LocalStore), "the others are not disturbed"
    finally:
        (point / "entry_points.txt").unlink()
        (point / "METADATA").unlink()
        point.rmdir()


def test_the_page_shows_the_files_as_they_are():
    here = Path(__file__).parent
    page = Path(here, "../../docs/write-a-store.md").read_text()
    texts = [text for _, text in re.findall(r"^```(\w+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)]
    for name in ("sqlite/zvcore_sqlite.py", "sqlite/pyproject.toml"):
        assert Path(here, name).read_text() in texts
