"""moto's server, at a socket that listens already, with one request after the other.

moto compares entity tags first and stores the object afterwards, as separate steps. Real servers make one of it, and
what is tested here relies on that.
"""

from __future__ import annotations

import io
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def one_by_one(application: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
    turn = threading.Lock()

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        # Nobody waits for a client that is slow to send.
        environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)))
        with turn:
            return [b"".join(application(environ, start_response))]

    return answer


if __name__ == "__main__":
    host, port, descriptor = "127.0.0.1", int(sys.argv[1]), int(sys.argv[2])
    os.environ["MOTO_PORT"] = str(port)
    server = make_server(
        host, port, one_by_one(DomainDispatcherApplication(create_backend_app)), threaded=True,
        request_handler=MotoRequestHandler, fd=descriptor,
    )  # fmt: skip
    server.serve_forever()
