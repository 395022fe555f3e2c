"""Discovery: installed plugins, broken ones, conflicts, registering by hand, and what errors tell."""

from __future__ import annotations

import dataclasses
import importlib
import os
import pickle
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, ClassVar

import pytest

from zvcore import codecs
from zvcore.codecs import Codec, CodecInfo, param, registry
from zvcore.errors import CodecConflictError, CodecNotFoundError, CorruptDataError, MetadataError, UnsupportedError
from zvcore.testing import check_codec

if TYPE_CHECKING:
    from pathlib import Path

SEVEN = {"raw", "gzip", "bzip2", "lz4", "xz", "blosc", "zstd"}

MODULE = """
from zvcore.codecs import Codec

class Plain(Codec):
    name = "{name}"
    def _encode(self, data): return bytes(data)
    def _decode(self, data, max_size): return bytes(data[: max_size + 1])
"""


class Environment:
    """A folder on Python's path with distributions in it, as pip would leave them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, distribution: str, points: dict[str, str], **modules: str) -> None:
        info = self.folder / f"{distribution.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
        lines = "\n".join(f"{name} = {value}" for name, value in points.items())
        (info / "entry_points.txt").write_text(f"[zvcore.codecs]\n{lines}\n")
        for module, text in modules.items():
            (self.folder / f"{module}.py").write_text(text)
        importlib.invalidate_caches()
        registry.rescan()


@pytest.fixture
def environment(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield Environment(tmp_path)
    monkeypatch.undo()
    for module in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[module], "__file__", "")):
            del sys.modules[module]
    registry.rescan()


@pytest.fixture
def registered():
    """Registers classes and takes them back."""
    names = []

    def register(name, cls):
        names.append(name)
        return codecs.register(name, cls)

    yield register
    for name in names:
        codecs.unregister(name)


def test_the_seven_are_installed():
    infos = codecs.available()
    assert set(infos) >= SEVEN
    for name in SEVEN:
        info = infos[name]
        assert (info.name, info.distribution, info.native, info.error) == (name, "zvcore", True, None)
        assert codecs.get(name).name == name


def test_all_come_through_entry_points():
    for name in SEVEN:
        assert type(codecs.get(name)).__module__.startswith("zvcore_plugins.")
    code = """if True:
        import sys
        import zvcore.codecs
        assert not [module for module in sys.modules if module.startswith("zvcore_plugins")]
        zvcore.codecs.get("gzip")
        assert "zvcore_plugins.zstd" not in sys.modules, "each is loaded when it is first used"
        assert "numcodecs" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_installed_plugin(environment):
    environment.add("acme-plain", {"plain": "acme_plain:Plain"}, acme_plain=MODULE.format(name="plain"))
    assert codecs.available()["plain"] == CodecInfo("plain", "acme-plain", False, None)
    check_codec(codecs.get("plain"))


@pytest.mark.parametrize(
    ("point", "text", "match"),
    [
        ("acme_broken:Plain", "import there_is_no_such_module", "ModuleNotFoundError: No module named 'there_is"),
        ("acme_broken:Plain", "1 / 0", "ZeroDivisionError"),
        ("acme_broken:Plain", "x = ", "SyntaxError"),
        ("acme_broken:Missing", MODULE, "AttributeError"),
        ("acme_broken:VALUE", "VALUE = 5", "a codec must be a class, not 5"),
        ("acme_broken:Plain", MODULE.format(name="other"), "calls itself 'other', not 'broken'"),
        ("acme_broken:Plain", "class Plain: pass", "has no method encode"),
        ("acme_broken:Plain", "class Plain:\n    def encode(self, data): ...", "has no method decode"),
    ],
)
def test_a_broken_plugin_breaks_no_other(environment, point, text, match):
    environment.add("acme-broken", {"broken": point}, acme_broken=text)
    info = codecs.available()["broken"]
    assert (info.distribution, info.native) == ("acme-broken", False)
    assert match in info.error
    assert codecs.available()["gzip"].error is None
    for _ in range(2):
        with pytest.raises(CodecNotFoundError, match="the codec 'broken' of acme-broken cannot be loaded") as caught:
            codecs.get("broken")
        assert match in str(caught.value)
        assert caught.value.__cause__ is not None
    with pytest.raises(CodecNotFoundError) as caught:
        codecs.from_n5({"type": "broken"}, "a/attributes.json")
    assert caught.value.key == "a/attributes.json"
    with pytest.raises(CodecNotFoundError, match="'nowhere'"):
        codecs.from_n5({"type": "nowhere"})


def test_two_distributions_with_one_name(environment, registered):
    environment.add("acme-one", {"plain": "acme_one:Plain"}, acme_one=MODULE.format(name="plain"))
    environment.add("acme-two", {"plain": "acme_two:Plain"}, acme_two=MODULE.format(name="plain"))
    for ask in (lambda: codecs.get("plain"), lambda: codecs.from_zarr3({"name": "plain"})):
        with pytest.raises(
            CodecConflictError, match=r"'plain' is provided by acme-\w+ .* and acme-\w+ .*register\('plain'"
        ):
            ask()
    info = codecs.available()["plain"]
    assert sorted(info.distribution.split(" and ")) == ["acme-one", "acme-two"]
    assert "provided by" in info.error
    assert codecs.get("gzip").name == "gzip"
    chosen = importlib.import_module("acme_two").Plain
    assert registered("plain", chosen) is chosen
    assert type(codecs.get("plain")) is chosen
    assert codecs.available()["plain"] == CodecInfo("plain", None, False, None)


def test_a_distribution_that_is_on_the_path_twice_is_one(environment, tmp_path, monkeypatch):
    environment.add("acme-one", {"plain": "acme_one:Plain"}, acme_one=MODULE.format(name="plain"))
    twice = tmp_path / "twice"
    twice.mkdir()
    monkeypatch.syspath_prepend(str(twice))
    Environment(twice).add("acme-one", {"plain": "acme_one:Plain"})
    assert codecs.available()["plain"].error is None


def test_a_spelling_that_two_codecs_claim(environment, registered):
    class One(Codec):
        name = "one"
        spellings = {"zarr3": "acme.same"}

    class Two(Codec):
        name = "two"
        also_read = {"zarr3": {"acme.same": {}, "acme.two": {}}}

    class Three(Codec):
        name = "three"
        also_read = {"zarr3": {"acme.two": {}}}

    for cls in (One, Two, Three):
        registered(cls.name, cls)
    assert type(codecs.from_zarr3("acme.same")) is One, "its proper name there"
    with pytest.raises(CodecConflictError, match=r"'acme.two' is claimed by the codecs 'three' and 'two'"):
        codecs.from_zarr3("acme.two")
    with pytest.raises(CodecNotFoundError, match="'one' in Zarr v3"):
        codecs.from_zarr3("one")


def test_an_unknown_name_is_answered_with_all_names():
    with pytest.raises(CodecNotFoundError) as caught:
        codecs.from_n5({"type": "jpeg", "quality": 90}, "volume/s0/attributes.json")
    text = str(caught.value)
    assert text.startswith("volume/s0/attributes.json: no installed codec is called 'jpeg' in N5; installed: ")
    assert all(name in text for name in SEVEN)
    assert "imagecodecs" in text
    with pytest.raises(CodecNotFoundError, match=r"entry point 'nowhere' in 'zvcore.codecs'"):
        codecs.get("nowhere")


def test_without_our_own_metadata():
    """A tree that was built in place and never installed."""
    code = """if True:
        from importlib import metadata
        points = metadata.entry_points
        metadata.entry_points = lambda **how: [p for p in points(**how) if p.dist.name != "zvcore"]
        found = metadata.distribution
        def distribution(name):
            if name == "zvcore":
                raise metadata.PackageNotFoundError(name)
            return found(name)
        metadata.distribution = distribution
        import zvcore.codecs
        print(list(zvcore.codecs.available()))
        try:
            zvcore.codecs.get("gzip")
        except zvcore.errors.CodecNotFoundError as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert lines[0] == "[]"
    assert "it is provided by zvcore; zvcore's own codecs are missing because it is not installed" in lines[1]


@pytest.mark.parametrize(
    ("read", "documents"),
    [
        (codecs.from_n5, [None, "gzip", 5, [], {"level": 5}, {"type": None}, {"type": 5}]),
        (
            codecs.from_zarr3,
            [None, 5, [], {}, {"name": 5}, {"configuration": {}}, {"name": "gzip", "configuration": 5}],
        ),
        (codecs.from_neuroglancer, [None, 5, {}, {"name": "gzip"}]),
    ],
)
def test_malformed_documents(read, documents):
    for document in documents:
        with pytest.raises(MetadataError) as caught:
            read(document, "the/key")
        assert caught.value.key == "the/key"


def test_spellings_are_found_through_the_registry():
    assert codecs.from_n5({}) == codecs.from_n5({"type": "raw"}) == codecs.get("raw")
    assert codecs.from_n5({"type": "gzip"}) == codecs.from_zarr3("gzip") == codecs.get("gzip")
    assert codecs.from_neuroglancer("gzip") == codecs.get("gzip", single_member=True)
    assert codecs.from_neuroglancer("raw") == codecs.get("raw")
    for wrong in ("zstd", "numcodecs.zlib", "GZIP", ""):
        with pytest.raises(CodecNotFoundError, match="in Neuroglancer"):
            codecs.from_neuroglancer(wrong)
    with pytest.raises(CodecNotFoundError, match="'raw' in Zarr v3"):
        codecs.from_zarr3("raw")


def test_as_codec():
    codec = codecs.get("gzip", level=3)
    assert codecs.as_codec("gzip") == codecs.get("gzip")
    assert codecs.as_codec({"name": "gzip", "level": 3}) == codec
    assert codecs.as_codec(codec) is codec
    for wrong in ({}, {"level": 3}, {"name": 5}, 5, None, object(), ["gzip"]):
        with pytest.raises((MetadataError, TypeError)):
            codecs.as_codec(wrong)


def test_register_and_unregister():
    class Mine(Codec):
        name = "gzip"
        level: int = param(1)

    assert codecs.register("gzip", Mine) is Mine
    try:
        assert type(codecs.get("gzip")) is Mine
        assert codecs.available()["gzip"].distribution is None
    finally:
        codecs.unregister("gzip")
    assert type(codecs.get("gzip")) is not Mine
    with pytest.raises(KeyError):
        codecs.unregister("gzip")
    with pytest.raises(TypeError, match="calls itself 'gzip', not 'zstd'"):
        codecs.register("zstd", Mine)
    assert codecs.available()["zstd"].distribution == "zvcore"


def test_many_threads_ask_first():
    registry.rescan()
    barrier = threading.Barrier(10)
    found = []

    def ask():
        barrier.wait()
        found.append([codecs.get(name) for name in sorted(SEVEN)] + [codecs.available()["gzip"]])

    threads = [threading.Thread(target=ask) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 10
    assert all(answer == found[0] for answer in found)


def test_after_a_fork():
    with registry._plugins._lock:
        child = os.fork()
        if child == 0:
            # The parent's thread that holds the lock is not here.
            registry.rescan()
            os._exit(0 if codecs.get("zstd").decode(codecs.get("zstd").encode(b"abc")) == b"abc" else 1)
    assert os.waitpid(child, 0)[1] == 0


# -- classes that do not know the base class -----------------------------------------------------------------------


class Stranger:
    """No base class, an __init__ of its own, no max_size, no from_config."""

    name = "stranger"

    def __init__(self, key: int = 1) -> None:
        if not 0 <= key < 256:
            raise ValueError("key must be a byte")
        self.key = key

    def config(self):
        return {"key": self.key}

    def encode(self, data):
        return bytes(data).translate(bytes(byte ^ self.key for byte in range(256)))

    def decode(self, data, out=None):
        return self.encode(data)


@dataclasses.dataclass(frozen=True)
class Frozen:
    """A dataclass that names itself in from_config and spells itself in N5."""

    name: ClassVar[str] = "frozen"
    key: int = 1

    def config(self):
        return dataclasses.asdict(self)

    @classmethod
    def from_config(cls, config):
        return Frozen(**config)

    def to_n5(self):
        return {"type": "frozen", "KEY": self.key}

    @classmethod
    def from_n5(cls, obj):
        return Frozen(obj["KEY"])

    def encode(self, data):
        return bytes(data).translate(bytes(byte ^ self.key for byte in range(256)))

    def decode(self, data, max_size=None):
        return self.encode(data)


class Overriding(Codec):
    """The base class, with its public methods overridden and an __init__ of its own."""

    name = "overriding"

    def __init__(self, key=1):
        super().__init__()
        self.key = key

    def config(self):
        return {"key": self.key}

    def encode(self, data):
        return bytes(data).translate(bytes(byte ^ self.key for byte in range(256)))

    def decode(self, data, out=None, max_size=None):
        result = self.encode(data)
        if out is not None:
            out[:] = result
        return result


@pytest.mark.parametrize(
    ("name", "cls"),
    [("stranger", Stranger), ("frozen", Frozen), ("overriding", Overriding)],
    ids=lambda value: str(value),
)
def test_strangers_become_full_codecs(registered, name, cls):
    completed = registered(name, cls)
    codec = codecs.get(name, key=90)
    assert isinstance(codec, cls)
    assert isinstance(codec, completed)
    assert isinstance(codec, Codec)
    assert codec.config() == {"key": 90}
    assert codec.key == 90
    assert codecs.as_codec({"name": name, "key": 90}) == codec
    assert codecs.as_codec(codec) is codec
    assert codec == codecs.as_codec(cls(key=90)) != codecs.as_codec(cls(key=91))
    assert pickle.loads(pickle.dumps(codec)) == codec
    assert codecs.from_zarr3({"name": name, "configuration": {"key": 90}}) == codec
    assert codecs.from_n5(codec.to_n5()).config() == codec.config()
    stored = codec.encode(b"abc")
    assert codec.decode(stored) == b"abc"
    with pytest.raises(CorruptDataError, match=name):
        codec.decode(stored, max_size=2)
    with pytest.raises(CorruptDataError, match=name):
        codec.decode(stored, out=bytearray(4))
    if name != "frozen":  # its from_n5 drops members that it does not know
        check_codec(codec)


def test_a_stranger_keeps_what_it_does_not_know(registered):
    registered("stranger", Stranger)
    document = {"type": "stranger", "key": 5, "comment": "kept"}
    codec = codecs.from_n5(document)
    assert codec.key == 5
    assert codec.to_n5() == document
    assert pickle.loads(pickle.dumps(codec)).to_n5() == document


def test_a_stranger_refuses_values(registered):
    registered("frozen", Frozen)
    with pytest.raises(MetadataError, match=r"a/attributes\.json: .*KeyError: 'KEY'"):
        codecs.from_n5({"type": "frozen"}, "a/attributes.json")
    registered("stranger", Stranger)
    with pytest.raises(MetadataError, match=r"a/zarr\.json: stranger: .*key must be a byte"):
        codecs.from_zarr3({"name": "stranger", "configuration": {"key": 256}}, "a/zarr.json")
    with pytest.raises(UnsupportedError):
        codecs.get("stranger").to_neuroglancer()
