"""Makes the links and pictures of README.md absolute, in place: PyPI shows it without the files around it.

    python3 .ci/readme_for_pypi.py https://github.com/OWNER/NAME v1.2.3

The release workflow does it in its checkout before anything is built; nobody commits the outcome.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"
_LINK = re.compile(r"(?P<picture>!?)(?P<text>\[[^\]]*\])\((?!#|[a-z]+:)(?P<target>[^)\s]+)\)")


def absolute(text: str, repository: str, revision: str) -> str:
    """The text with links to the pages of a revision of a repository, and pictures as they lie there."""

    def replaced(found: re.Match[str]) -> str:
        kind = "raw" if found["picture"] else "blob"
        return f"{found['picture']}{found['text']}({repository.rstrip('/')}/{kind}/{revision}/{found['target']})"

    return _LINK.sub(replaced, text)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    README.write_text(absolute(README.read_text(), *sys.argv[1:]))
