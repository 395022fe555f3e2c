"""How much memory decoding may take when the decoded size is not known."""

from __future__ import annotations

import os

# Users assign to `zvcore.codecs.max_decoded_size`.
max_decoded_size: int = int(os.environ.get("ZVCORE_MAX_DECODED") or 2**31)
