"""The README's code runs, and what it says about codecs is so."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize(
    "page", ["README.md", "docs/arrays.md", "docs/precomputed.md", "docs/zarr3.md", "docs/verify.md", "docs/errors.md"]
)
def test_the_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)


def test_code_stands_in_the_first_screen() -> None:
    assert README[: README.index("```python")].count("\n") < 10


@pytest.mark.parametrize("page", ["README.md", *sorted(str(p.relative_to(ROOT)) for p in ROOT.glob("docs/*.md"))])
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text()
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (ROOT / page).parent.joinpath(target).exists(), target


def test_the_codec_table_is_that_of_the_build() -> None:
    packages = re.findall(r'"(lib\w+-dev)"', (ROOT / "setup.py").read_text())
    assert len(packages) >= 6
    for package in packages:
        assert f"`{package}`" in README
