"""Arrays opened again, or others with the same document: what is made of it is shared, and nothing is out of date."""

from __future__ import annotations

import copy
import json
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore import codecs

if TYPE_CHECKING:
    from pathlib import Path

    from zvcore.codecs import Codec

DOCUMENTS = {"n5": "attributes.json", "zarr2": ".zarray", "zarr3": "zarr.json"}
VALUES = np.arange(64, dtype="u2").reshape(8, 8)


@pytest.fixture(params=[*DOCUMENTS])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    path = tmp_path / request.param
    zvcore.create(path, format=request.param, data=VALUES, chunks=(4, 4), codec={"name": "blosc", "cname": "zstd"})
    return path, DOCUMENTS[request.param]


def test_codecs_are_shared(place: tuple[Path, str]) -> None:
    """With them, the contexts of the C libraries."""
    path, _ = place
    one, other = zvcore.open(path), zvcore.open(path)
    assert one.layout.chains[0] is other.layout.chains[0]


def test_documents_are_not(place: tuple[Path, str]) -> None:
    path, name = place
    said = json.loads((path / name).read_text())
    for _ in range(3):
        array = zvcore.open(path)
        np.testing.assert_array_equal(array[...], VALUES)
        document = array.metadata.compression if name == "attributes.json" else array.metadata.document
        assert document == (said["compression"] if name == "attributes.json" else said)
        document.clear()
        for member in array._document.content.values():  # what attributes are made of
            if isinstance(member, dict):
                member.clear()


def test_a_document_that_has_changed_is_seen(place: tuple[Path, str]) -> None:
    path, name = place
    for _ in range(2):
        assert zvcore.open(path).shape == (8, 8)
    text = (path / name).read_text()
    (path / name).write_text(text.replace("8", "6"))
    for _ in range(2):
        array = zvcore.open(path)
        assert array.shape == (6, 6)
    (path / name).write_text(text)
    assert zvcore.open(path).shape == (8, 8)


def test_codecs_that_are_registered_later_count(place: tuple[Path, str]) -> None:
    path, _ = place
    assert type(zvcore.open(path).codecs[0]).__name__ == "Blosc"
    before = codecs.registry.find_plugin("blosc")
    assert before is not None

    class Other(before):  # type: ignore[misc, valid-type]
        name = "blosc"

    codecs.register("blosc", Other)
    try:
        assert type(zvcore.open(path).codecs[0]) is Other
    finally:
        codecs.unregister("blosc")
    assert type(zvcore.open(path).codecs[0]) is before


def test_errors_name_the_place_that_is_read(tmp_path: Path) -> None:
    """Two datasets of N5 with the same document, whose codec nobody has."""
    for name in ("one", "other"):
        path = tmp_path / name
        zvcore.create(path, format="n5", data=VALUES, chunks=(4, 4))
        said: dict[str, Any] = json.loads((path / "attributes.json").read_text())
        (path / "attributes.json").write_text(json.dumps({**said, "compression": {"type": "nobody_has_it"}}))
    for name in ("one", "other", "one"):
        with pytest.raises(zvcore.errors.CodecNotFoundError) as caught:
            zvcore.open(tmp_path / name)[...]
        assert caught.value.key == str(tmp_path / name / "attributes.json")


def test_chunks_lie_as_the_options_say(tmp_path: Path) -> None:
    """Of one document of N5, in whatever order it is opened first."""
    for name, orders in (("one", "FCFC"), ("other", "CFCF")):
        path = tmp_path / name
        zvcore.create(path, format="n5", shape=(5, 8), dtype="u2", chunks=(4, 3), order="C")[...] = VALUES[:5]
        for order in orders:
            for pad_edges in (False, True):
                array = zvcore.open(path, order=order, pad_edges=pad_edges)
                np.testing.assert_array_equal(array[...] if order == "C" else array[...].T, VALUES[:5])


def test_arrays_go_to_other_processes(place: tuple[Path, str]) -> None:
    path, _ = place
    for _ in range(2):
        array = zvcore.open(path)
        np.testing.assert_array_equal(array[...], VALUES)
        for sent in (pickle.loads(pickle.dumps(array)), copy.deepcopy(array.layout)):
            layout = getattr(sent, "layout", sent)
            assert layout.shape == (8, 8) and not layout.shared
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(array))[...], VALUES)


def test_forms_are_shared(place: tuple[Path, str]) -> None:
    path, _ = place
    one, other = zvcore.open(path), zvcore.open(path)
    assert one.layout.prepared is not other.layout.prepared
    assert one.layout.shared is other.layout.shared and len(one.layout.shared) == 1


def test_blosc_for_items_of_one_size_is_one_codec() -> None:
    codec = codecs.get("blosc")
    for size in range(1, 100):
        dtype = np.dtype(("V", size))
        found: Codec = codec.for_dtype(dtype)
        assert found is codec.for_dtype(dtype)
        assert found.config()["typesize"] == size
