"""Meshes and skeletons on a web server 5 ms away, beside CloudVolume.

    pytest bench/test_meshes_far.py --benchmark-enable      times
    python -m bench.test_meshes_far [word]                  ratios, the competitors taking turns

The server and the objects are those of `test_web` and `test_meshes`.
"""

from __future__ import annotations

import importlib.util
import shutil
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import pytest

import zvcore
from bench.contest import Contest, entrants, run_alone
from bench.scale import pick
from bench.test_buckets import FAR, end, server, upload
from bench.test_meshes import PEERS, RADIUS, bones, scratch, surfaces, volume
from zvcore.precomputed import write_meshes, write_skeletons

if TYPE_CHECKING:
    from collections.abc import Callable

Functions = dict[str, "Callable[[], Any]"]
KINDS: dict[str, tuple[str, Callable[..., Any], dict[str, Any]]] = {
    "skeletons in files": ("skeletons", write_skeletons, {"vertex_attributes": [RADIUS]}),
    "skeletons in shards": ("skeletons", write_skeletons, {"vertex_attributes": [RADIUS], "sharding": "advise"}),
    "meshes in shards": ("mesh", write_meshes, {}),
    "legacy meshes": ("mesh", write_meshes, {"kind": "legacy"}),
}


@cache
def address(kind: str) -> str:
    """Where on the server the volume lies that names these objects."""
    name, write, options = KINDS[kind]
    folder = volume(f"far {kind}")
    write(folder / name, bones() if name == "skeletons" else surfaces(), **options)
    return f"{server(FAR).endpoint}/bucket/{upload(FAR, folder, kind)}"


def ours(kind: str) -> Any:
    found = zvcore.open(address(kind), format="precomputed")
    return found.skeletons() if KINDS[kind][0] == "skeletons" else found.meshes()


def theirs(kind: str) -> Any:
    from cloudvolume import CloudVolume

    found = CloudVolume(f"precomputed://{address(kind)}", progress=False)
    return found.skeleton if KINDS[kind][0] == "skeletons" else found.mesh


def many(kind: str, count: int) -> Functions:
    skeletons = KINDS[kind][0] == "skeletons"
    one, other = ours(kind), theirs(kind)
    wanted = [*(bones() if skeletons else surfaces())][:count]
    return {
        "zvcore": lambda: (one.get_many if skeletons else one.surfaces)(wanted),
        "cloud-volume": lambda: other.get(wanted),
    }


def first(kind: str) -> Functions:
    wanted = next(iter(bones() if KINDS[kind][0] == "skeletons" else surfaces()))
    return {
        "zvcore": lambda: ours(kind)[wanted].vertices,
        "cloud-volume": lambda: theirs(kind).get(wanted),
    }


CONTESTS = [
    Contest(f"{what} {kind}, 5 ms away", PEERS, make)
    for kind in KINDS
    for what, make in (
        ("open a volume and get one of its", partial(first, kind)),
        (f"get {pick(20, 5)} of the", partial(many, kind, pick(20, 5))),
    )
]
# If the peer is installed.
CONTESTS = CONTESTS if importlib.util.find_spec("cloudvolume") else []


@pytest.fixture(scope="module", autouse=True)
def _server_ends() -> Any:
    yield
    end()
    address.cache_clear()


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_contest(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    try:
        run_alone(CONTESTS, seconds=8.0)
    finally:
        end()
        shutil.rmtree(scratch(), ignore_errors=True)
