"""Codecs from distributions of their own: installed by pip, discovered, used, removed."""

from __future__ import annotations

import json
import shutil
import site
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from zvcore import codecs
from zvcore.errors import CodecNotFoundError, CorruptDataError, MetadataError
from zvcore.testing import check_codec

HERE = Path(__file__).parent
DATA = np.repeat(np.arange(200, dtype="u1"), np.arange(200) * 3).tobytes()


@pytest.mark.parametrize(("name", "native"), [("runs", False), ("cruns", True)])
def test_discovered_and_used_like_the_first_party(third_party, name, native):
    info = codecs.available()[name]
    assert (info.distribution, info.native, info.error) == (f"zvcore-{name}", native, None)
    codec = codecs.get(name, longest=200)
    check_codec(codec)
    assert codec.native is native
    assert codec.decode(codec.encode(DATA)) == DATA
    assert codecs.from_n5({"type": name, "longest": 200}) == codecs.from_zarr3(codec.to_zarr3()) == codec
    with pytest.raises(MetadataError, match=r"'longest'.*from 1 to 255"):
        codecs.from_n5({"type": name, "longest": 256}, "a/attributes.json")


def test_both_write_the_same(third_party):
    for longest in (1, 7, 255):
        python, native = (codecs.get(name, longest=longest) for name in third_party.names)
        for data in (b"", b"a", DATA, bytes(100_000), np.random.default_rng(1).bytes(1000)):
            assert python.encode(data) == native.encode(data)
            assert python.decode(native.encode(data)) == native.decode(python.encode(data)) == data


def test_both_refuse_the_same(third_party):
    for name in third_party.names:
        for stored in (b"\x01", b"\x00a", b"\x02a\x03"):
            with pytest.raises(CorruptDataError, match=f"{name}: a run is cut off or empty"):
                codecs.get(name).decode(stored)


def test_removed_plugins_are_missed_by_name(third_party):
    documents = [codecs.get(name).to_n5() for name in third_party.names]
    third_party.remove()
    for document in documents:
        with pytest.raises(CodecNotFoundError, match=document["type"]) as caught:
            codecs.from_n5(document, "volume/attributes.json")
        assert caught.value.key == "volume/attributes.json"
        assert "gzip" in str(caught.value), "it says what is installed"


USE = """
import json, sys
from zvcore import codecs
from zvcore.errors import CodecNotFoundError
answers = {}
for name in ("runs", "cruns"):
    try:
        codec = codecs.from_zarr3({"name": name, "configuration": {"longest": 9}}, "zarr.json")
        assert codec.decode(codec.encode(b"aaaabb" * 1000)) == b"aaaabb" * 1000
        answers[name] = codecs.available()[name].distribution
    except CodecNotFoundError as error:
        answers[name] = str(error)
print(json.dumps(answers))
"""


def test_pip_install_and_uninstall(tmp_path):
    """In a virtual environment of its own, which sees this one's packages besides its own."""
    home = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    python = home / "bin" / "python"
    show = "import sysconfig; print(sysconfig.get_path('purelib'))"
    own = Path(subprocess.run([python, "-c", show], capture_output=True, text=True, check=True).stdout.strip())
    ours = [path for path in {*site.getsitepackages(), *sys.path} if path.endswith("site-packages")]
    lines = [f"import site; site.addsitedir({path!r})\n" for path in sorted(ours)]
    (own / "shared.pth").write_text("".join(lines))

    def pip(*arguments: str) -> None:
        subprocess.run([sys.executable, "-m", "pip", "--python", str(python), *arguments, "-q"], check=True)

    def use() -> dict[str, str]:
        done = subprocess.run([python, "-c", USE], capture_output=True, text=True, check=True, cwd=tmp_path)
        return json.loads(done.stdout)

    before = use()
    assert all(before[name].startswith(f"zarr.json: no installed codec is called '{name}'") for name in before)
    for name in before:
        source = tmp_path / name
        shutil.copytree(HERE / name, source)
        pip("install", "--no-build-isolation", "--no-deps", "--no-index", str(source))
    assert use() == {"runs": "zvcore-runs", "cruns": "zvcore-cruns"}
    pip("uninstall", "-y", "zvcore-runs", "zvcore-cruns")
    assert use() == before
