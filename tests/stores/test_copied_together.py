"""Small objects that are copied many at a time, to and from a bucket: what fails on the way is copied or told of."""

from __future__ import annotations

import random
import uuid
from typing import TYPE_CHECKING, Any

import pytest

import zvcore
from zvcore.care import copying_together
from zvcore.report import What
from zvcore.stores import LocalStore, MemoryStore, open_store, own_requests

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.stores.servers import S3, Proxy, Request
    from zvcore.stores.range_requests import Wanted

COUNT = 300


@pytest.fixture
def url(s3: S3) -> str:
    return s3.url(f"together-{uuid.uuid4()}")


@pytest.fixture
def wanted(tmp_path: Path) -> dict[str, bytes]:
    chance = random.Random(1)
    wanted = {f"{number % 5}/{number}": chance.randbytes(chance.randrange(3000)) for number in range(COUNT)}
    # More than one group by their bytes, and one that is copied by itself.
    wanted |= {f"large/{number}": chance.randbytes(900_000) for number in range(6)}
    wanted["large/last"] = chance.randbytes(copying_together.LARGEST + 1)
    for name, data in wanted.items():
        LocalStore(tmp_path / "a").put(name, data)
    return wanted


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_up_and_down_and_from_bucket_to_bucket(s3: S3, url: str, wanted: dict[str, bytes], tmp_path: Path) -> None:
    for source, target in ((tmp_path / "a", f"{url}/1"), (f"{url}/1", f"{url}/2"), (f"{url}/2", tmp_path / "b")):
        report = zvcore.copy(source, target, storage_options=s3.options, verify=True)
        assert report.ok and report.counts["objects copied"] == len(wanted)
        assert report.counts["bytes copied"] == sum(map(len, wanted.values()))
        again = zvcore.sync(source, target, storage_options=s3.options)
        assert again.ok and again.counts == {"objects the same": len(wanted)}
    assert content(tmp_path / "b") == wanted


def test_what_is_damaged_on_its_way_is_told(
    s3: S3, url: str, wanted: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proxy: Proxy
) -> None:
    """By the tag that the service answers, without a request more than the copies themselves take."""
    if s3.scheme != "s3":
        pytest.skip("the tags of this service are no MD5s")
    real, damaged = own_requests.store_objects, [f"/x/{name}" for name in ("3/123", "large/2", "4/299")]

    def damaging(asked: Sequence[Wanted], at_once: int) -> Any:
        sent = [
            one._replace(parts=[bytes(sum(map(len, one.parts or ())))])
            if any(name.encode() in one.address.request for name in damaged)
            else one
            for one in asked
        ]
        return real(sent, at_once)

    monkeypatch.setattr(own_requests, "store_objects", damaging)
    report = zvcore.copy(tmp_path / "a", f"{url}/x", storage_options=s3.options)
    assert sorted(problem.where for problem in report.problems) == sorted(name[3:] for name in damaged)
    assert all("not the same as the original" in problem.what for problem in report.problems)
    monkeypatch.undo()
    proxy.forget()
    assert zvcore.copy(tmp_path / "a", f"{url}/y", storage_options=s3.options).ok
    heads = [one for one in proxy.requests if one.method == "HEAD"]
    assert len([one for one in proxy.requests if one.method == "PUT"]) == len(wanted)
    assert len(heads) <= 2, "the one that is copied in blocks is asked for, and what the store is"


@pytest.mark.parametrize("status", [500, 503, 403])
@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_requests_that_fail_once_are_made_again(
    s3: S3, url: str, wanted: dict[str, bytes], tmp_path: Path, proxy: Proxy, method: str, status: int
) -> None:
    failed: set[str] = set()
    chance = random.Random(status)

    def failing(request: Request) -> int | None:
        if request.method != method or "list-type" in request.path or request.path in failed or chance.random() < 0.9:
            return None
        failed.add(request.path)
        return status

    proxy.spoil = failing
    up = zvcore.copy(tmp_path / "a", f"{url}/x", storage_options=s3.options)
    down = zvcore.copy(f"{url}/x", tmp_path / "b", storage_options=s3.options)
    assert failed
    proxy.spoil = lambda request: None
    # Those that were refused may be told of; all others are there, and the same call gets the rest.
    assert {problem.kind for problem in (*up.problems, *down.problems)} <= {What.STORE}
    assert zvcore.copy(tmp_path / "a", f"{url}/x", storage_options=s3.options).ok
    assert zvcore.copy(f"{url}/x", tmp_path / "b", storage_options=s3.options).ok
    assert content(tmp_path / "b") == wanted


def test_an_object_that_is_gone_by_now_is_told_of(
    s3: S3, url: str, wanted: dict[str, bytes], tmp_path: Path, proxy: Proxy
) -> None:
    assert zvcore.copy(tmp_path / "a", f"{url}/x", storage_options=s3.options).ok

    def gone(request: Request) -> int | None:
        return 404 if request.method in ("GET", "HEAD") and "/x/3/13?" in f"{request.path}?" else None

    proxy.spoil = gone
    report = zvcore.copy(f"{url}/x", tmp_path / "b", storage_options=s3.options)
    assert [problem.where for problem in report.problems if problem.fatal] == ["3/13"]
    assert content(tmp_path / "b") == {key: data for key, data in wanted.items() if key != "3/13"}


def test_what_somebody_else_writes_after_it_was_listed_is_not_lost(
    s3: S3, url: str, wanted: dict[str, bytes], tmp_path: Path, proxy: Proxy
) -> None:
    assert zvcore.copy(tmp_path / "a", f"{url}/x", storage_options=s3.options).ok
    store = open_store(f"{url}/x", "w", s3.options)
    others = [bytes(len(wanted["3/13"]))]

    def meanwhile(request: Request) -> None:
        if request.method == "GET" and "list-type" in request.path and others:
            store.put("3/13", others.pop())

    proxy.spoil = meanwhile
    report = zvcore.copy(tmp_path / "a", f"{url}/x", storage_options=s3.options)
    assert report.counts.get("objects copied", 0) == 0
    assert [problem.where for problem in report.problems if problem.fatal] == ["3/13"]
    assert bytes(store.get("3/13") or b"") == bytes(len(wanted["3/13"]))


def test_nothing_is_copied_together_where_nothing_is_far(wanted: dict[str, bytes], tmp_path: Path, monkeypatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr("zvcore.care.mirroring.copied_together", never)
    target = MemoryStore()
    assert zvcore.copy(tmp_path / "a", target).ok
    assert {key: bytes(target.get(key) or b"") for key in target.list()} == wanted
