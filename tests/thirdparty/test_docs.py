"""`docs/write-a-codec.md`: what it shows is what is installed here, and what it says happens."""

from __future__ import annotations

import re
from pathlib import Path

import zarr.registry

import zvcore

HERE = Path(__file__).parent
BLOCKS = re.findall(
    r"^```(\w+)\n(.*?)^```$", Path(HERE, "../../docs/write-a-codec.md").read_text(), re.MULTILINE | re.DOTALL
)
SHOWN = ("runs/zvcore_runs.py", "runs/pyproject.toml", "cruns/_cruns.c", "cruns/zvcore_cruns.py", "cruns/setup.py")


def test_files_are_shown_as_they_are():
    texts = [text for _, text in BLOCKS]
    for name in SHOWN:
        assert Path(HERE, name).read_text() in texts, name


def test_a_codec_in_thirty_lines():
    lines = Path(HERE, "runs/zvcore_runs.py").read_text().splitlines()
    assert len([line for line in lines if line.strip()]) <= 30


def test_snippets_run(third_party, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    zarr.registry._collect_entrypoints()
    files = {Path(HERE, name).read_text() for name in SHOWN}
    snippets = [text for language, text in BLOCKS if language == "python" and text not in files]
    assert len(snippets) == 5
    names: dict[str, object] = {"zvcore": zvcore}
    for snippet in snippets:
        exec(compile(snippet, "write-a-codec.md", "exec"), names)
