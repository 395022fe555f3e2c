"""Where there is no room for more, the error says of which file, though the system does not."""

from __future__ import annotations

import resource
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.precomputed import ShardedStore, ShardingSpec, write_annotations, write_meshes, write_sharded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SPEC = ShardingSpec.advise(count=2, bytes=1_000_000, data_encoding="raw")
LIMIT = 400_000
LARGE = np.random.default_rng(1).bytes(2 * LIMIT)


@contextmanager
def small_files() -> Iterator[None]:
    """Within this, no file of this process grows beyond so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def _sharded(path: Path) -> Callable[[], object]:
    return lambda: write_sharded(path, SPEC, {1: LARGE})


def _sorted(path: Path) -> Callable[[], object]:
    return lambda: write_sharded(path, SPEC, {1: LARGE, 2: LARGE}, memory=1 << 16)


def _updated(path: Path) -> Callable[[], object]:
    write_sharded(path, SPEC, {1: b"small"})
    return lambda: ShardedStore(path, SPEC, "r+").update({2: LARGE})


def _meshes(path: Path) -> Callable[[], object]:
    pytest.importorskip("DracoPy")
    vertices = np.random.default_rng(0).random((200_000, 3), np.float32)
    faces = np.arange(len(vertices) // 3 * 3, dtype="u4").reshape(-1, 3)
    return lambda: write_meshes(path, {1: (vertices, faces)})


def _annotations(path: Path) -> Callable[[], object]:
    points = np.random.default_rng(0).random((100_000, 3))
    return lambda: write_annotations(
        path, "point", {"point": points}, dimensions=dict.fromkeys("xyz", (1e-9, "m")), memory=1 << 20
    )


def _appended(path: Path) -> Callable[[], object]:
    options: dict[str, Any] = {"chunks": (200_000,), "shards": (800_000,), "codec": None, "write_mode": "append"}
    array = zvcore.create(path, format="zarr3", shape=(800_000,), dtype="uint8", **options)
    array[:200_000] = 1
    return lambda: array.write(slice(200_000, 600_000), 2)


@pytest.mark.parametrize("begin", [_sharded, _sorted, _updated, _meshes, _annotations, _appended])
def test_the_file_that_finds_no_room_is_named(tmp_path: Path, begin: Callable[[Path], Callable[[], object]]) -> None:
    work = begin(tmp_path / "there")
    before = sorted((tmp_path / "there").rglob("*")) if (tmp_path / "there").exists() else []
    with small_files(), pytest.raises(OSError, match="File too large") as caught:
        work()
    assert str(tmp_path) in str(caught.value)
    assert [path for path in (tmp_path / "there").rglob("*") if path.is_file() and path not in before] == []


@pytest.mark.parametrize("format", ["n5", "zarr3", "precomputed"])
def test_conversions_name_what_they_were_writing_and_not_their_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    """On a full disk, what was done cannot be noted either."""
    from zvcore.converting.journal import Journal

    values = np.random.default_rng(0).integers(0, 255, (80, 80, 80), np.uint8)
    source = zvcore.create(tmp_path / "source", format="zarr3", data=values)
    write = Journal._write

    def full(self: Journal) -> None:
        if self._units is not None and any((tmp_path / "made").rglob("*")) and limited:
            raise OSError(28, "No space left on device", str(tmp_path / "made/.zvcore-convert.json"))
        write(self)

    limited: list[int] = []
    monkeypatch.setattr(Journal, "_write", full)
    plan = Journal.plan
    monkeypatch.setattr(Journal, "plan", lambda self, steps: (plan(self, steps), limited.append(1))[0])
    with small_files(), pytest.raises(OSError, match="File too large") as caught:
        zvcore.convert(source, tmp_path / "made", format=format, chunks=(80, 80, 80), codec=None, verify=False)
    assert str(caught.value.filename).startswith(f"{tmp_path}/made/") and "convert.json" not in caught.value.filename
    assert any("run again, resumes it" in note for note in caught.value.__notes__)
