"""What `mkdocs.yml` asks of the pages: those on the site cannot link to files of the repository beside docs/."""

from __future__ import annotations

import re
from typing import Any

OUT_OF_DOCS = re.compile(r"\[([^\]]+)\]\(\.\./([^)#]+)[^)]*\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Such a link becomes its text, and the file's path where that says more."""
    return OUT_OF_DOCS.sub(_named, markdown)


def _named(link: re.Match[str]) -> str:
    text, path = link.groups()
    return text if path in text else f"{text} (`{path}`)"
