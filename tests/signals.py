"""Signals that come while native code works."""

from __future__ import annotations

import _thread
import signal
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def with_a_signal(call: Callable[[], Any], handler: Callable[[], object]) -> Any:
    """What `call` gives. A signal waits when it begins, which calls `handler` as soon as signals are seen.

    No line of Python runs between the signal and the native code, so whoever sees it before the end, it is that code.
    """
    before = signal.signal(signal.SIGUSR1, lambda *_: handler())
    try:
        steps = [partial(_thread.interrupt_main, signal.SIGUSR1), partial(call)]
        return [*map(partial.__call__, steps)][1]
    finally:
        signal.signal(signal.SIGUSR1, before)
