"""What holds for all tests."""

import importlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.codecs.tables import Fake
from tests.needs import Guard, needs_of
from zvcore import _build, codecs
from zvcore.codecs import Codec, registry
from zvcore.format import _plugins
from zvcore.stores.late_writes import in_memory
from zvcore.stores.opening import schemes

# Examples take as long as the machine is busy: that says nothing about the code.
settings.register_profile("zvcore", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
# With CI set, each run tries the same examples: a failure belongs to the change that it appears with.
settings.register_profile("zvcore-ci", settings.get_profile("zvcore"), derandomize=True, database=None)
# `make test`: what a change broke is mostly seen in few examples.
settings.register_profile(
    "zvcore-quick", settings.get_profile("zvcore"), max_examples=20, derandomize=True, database=None
)
settings.load_profile(os.environ.get("ZVCORE_TEST_PROFILE") or ("zvcore-ci" if os.environ.get("CI") else "zvcore"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for name in needs_of(item):
            item.add_marker(name)


def refuse_missing_peers(report: pytest.TestReport | pytest.CollectReport) -> None:
    """In CI all other implementations are there: a test that is left out for want of one would tell of nothing."""
    # Some have no release for Python 3.11.
    if os.environ.get("CI") and sys.version_info >= (3, 12) and report.skipped:
        if "could not import" in str(report.longrepr):
            report.outcome = "failed"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    refuse_missing_peers(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    refuse_missing_peers(report)
    return report


guard = Guard()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    guard.watch(item)
    try:
        return (yield)
    finally:
        guard.closed = False


def pytest_configure() -> None:
    if settings.get_current_profile_name() == "zvcore-quick":
        sys.addaudithook(guard)
    # A shell that starts commands in the background makes them deaf to Ctrl-C, and what the tests start as well.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # `make sanitize` must not run the ordinary modules by mistake: that would find nothing, quietly.
    expected = os.environ.get("ZVCORE_TEST_KIND", _build.kind)
    if _build.kind != expected:
        pytest.exit(f"{_build.__file__} is a {_build.kind} build, not {expected}", returncode=3)


@pytest.fixture(scope="session")
def disk_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder on a disk. `tmp_path` may be in memory, where nothing waits for a disk."""
    for place in (tmp_path_factory.getbasetemp(), Path("/tmp"), Path("/var/tmp"), Path(__file__).parent):
        if os.access(place, os.W_OK) and not in_memory(os.fsencode(place)):
            folder = Path(tempfile.mkdtemp(prefix="zvcore-disk-", dir=place))
            yield folder
            shutil.rmtree(folder, ignore_errors=True)
            return
    pytest.skip("there is no disk")


@pytest.fixture
def disk_path(disk_folder: Path) -> Path:
    """`tmp_path`, on a disk."""
    return Path(tempfile.mkdtemp(dir=disk_folder))


class ThirdParty:
    """The plugins of `tests/thirdparty`, installed in a folder that can be put on and taken off Python's path."""

    names = ("runs", "cruns")
    stores = ("sqlite",)
    formats = ("nrrd",)

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def install(self) -> None:
        if str(self.folder) not in sys.path:
            sys.path.append(str(self.folder))
        self._look_again()

    def remove(self) -> None:
        if str(self.folder) in sys.path:
            sys.path.remove(str(self.folder))
            self._look_again()

    def _look_again(self) -> None:
        importlib.invalidate_caches()
        for module in ("zvcore_runs", "zvcore_cruns", "_cruns", "zvcore_sqlite", "zvcore_nrrd"):
            sys.modules.pop(module, None)
        registry.rescan()
        schemes.rescan()
        _plugins.rescan()


@pytest.fixture(scope="session")
def third_party_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pip has installed the distributions of `tests/thirdparty`, built from copies of their sources."""
    folder = tmp_path_factory.mktemp("thirdparty")
    sources = []
    for name in (*ThirdParty.names, *ThirdParty.stores, *ThirdParty.formats):
        sources.append(str(folder / "sources" / name))
        shutil.copytree(Path(__file__).parent / "thirdparty" / name, sources[-1])
    target = folder / "installed"
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps", "--no-index"]
    subprocess.run([*command, "--target", str(target), *sources], check=True)
    return target


@pytest.fixture
def third_party(third_party_folder: Path) -> Iterator[ThirdParty]:
    """Codecs "runs" (Python) and "cruns" (C) and the scheme sqlite:// from distributions of their own; `remove()` takes
    them away again.
    """
    plugins = ThirdParty(third_party_folder)
    plugins.install()
    yield plugins
    plugins.remove()


@pytest.fixture
def use_table(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Any], Codec]]:
    """The codec "fake" with this table, found by its name."""

    def use(table: Any) -> Codec:
        monkeypatch.setattr(Fake, "table", table)
        # Again: what was made of the class with another table is forgotten.
        codecs.register("fake", Fake)
        return Fake()

    codecs.register("fake", Fake)
    yield use
    codecs.unregister("fake")
