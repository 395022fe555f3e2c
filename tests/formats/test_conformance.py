"""`zvcore.testing.check_format`: every format of the first party passes it, and those with a fault do not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import zvcore
from zvcore.format import get_format, register_format
from zvcore.report import Report
from zvcore.testing import check_format

if TYPE_CHECKING:
    from collections.abc import Iterator

MAKERS = [name for name, one in zvcore.formats().items() if one.makes_arrays]
N5: Any = type(get_format("n5"))


@pytest.mark.parametrize("format", MAKERS)
def test_formats_of_the_first_party_do_all_that_zvcore_relies_on(format: str) -> None:
    check_format(format)


@pytest.mark.parametrize("format", ["n5", "zarr3"])
def test_a_changed_byte_is_noticed_where_chunks_have_checksums(format: str) -> None:
    check_format(get_format(format), codec="gzip", checksums=True)


def test_shards_do_all_that_zvcore_relies_on() -> None:
    check_format("zarr3", shards=(8, 8, 8))


def test_formats_without_arrays_are_refused() -> None:
    with pytest.raises(TypeError, match="zvf makes no arrays"):
        check_format("zvf")


class IsNotFound(N5):
    def detect(self, store: Any) -> bool:
        return False


class Overwrites(N5):
    def create(self, store: Any, **options: Any) -> Any:
        return super().create(store, **{**options, "overwrite": True})


class TakesAnything(N5):
    def create(self, store: Any, **options: Any) -> Any:
        return super().create(store, **{name: options[name] for name in options if "no_such" not in name})


class FindsNothing(N5):
    def care(self) -> Any:
        return self

    def verify(self, store: Any, **options: Any) -> Report:
        return Report()


class LosesAttributes(N5):
    def create(self, store: Any, **options: Any) -> Any:
        return super().create(store, **{**options, "attrs": None})


@pytest.fixture
def unregister() -> Iterator[None]:
    yield
    zvcore.format._plugins.unregister("n5")


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        (IsNotFound, "n5: what must work raises UnsupportedError"),
        (Overwrites, "n5: create where an array is must raise ConflictError"),
        (TakesAnything, "n5: create with the option 'zvcore_no_such_option' must raise TypeError"),
        (FindsNothing, "verify finds nothing, and reading raises"),
        (LosesAttributes, r"n5: after create\(attrs=...\) the attribute 'zvcore_test' is not there"),
    ],
)
@pytest.mark.usefixtures("unregister")
def test_a_fault_of_a_format_is_named(broken: Any, told: str) -> None:
    register_format(broken())
    with pytest.raises(AssertionError, match=told):
        check_format(broken())
