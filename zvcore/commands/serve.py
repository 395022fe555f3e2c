"""`zvcore serve PATH`: data sets over HTTP, for Neuroglancer in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse


def add_parser(commands: Any, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "serve",
        parents=[common],
        help="serve a folder, an archive or an object store over HTTP, with links that open Neuroglancer",
        description="Serve a folder, a zip archive, or what lies at an address such as s3://bucket/data, over HTTP, "
        "read only. The page at its root lists the data sets in it, with pictures and links that open them in "
        "Neuroglancer. Ends with Ctrl-C.",
    )
    parser.add_argument("path", help="a folder, an archive, or its address: a data set, or one with data sets in it")
    parser.add_argument("--port", type=int, default=8000, metavar="N", help="default: 8000; 0: any free port")
    parser.add_argument(
        "--host", default="127.0.0.1", help="the address to listen at (default: 127.0.0.1, only this machine)"
    )
    parser.add_argument(
        "--origin", default="*", metavar="ORIGIN",
        help="which pages in a browser may read the data, such as https://example.org (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME[:PORT]",
        help="another name under which the server may be asked for, as behind a proxy or a tunnel; can be repeated",
    )  # fmt: skip
    parser.add_argument("--neuroglancer", metavar="URL", help="the Neuroglancer that the links open")
    return parser


def run(options: argparse.Namespace) -> int:
    import os

    from zvcore.commands import UsageError
    from zvcore.serving.requests import check_host, check_origin

    if not 0 <= options.port <= 65535:
        raise UsageError(f"--port is 0 to 65535, not {options.port}")
    try:
        check_origin(options.origin)
        for name in options.allow_host:
            check_host(name)
    except ValueError as error:
        raise UsageError(str(error)) from error
    from zvcore import codecs
    from zvcore.serving.limits import LARGEST_UNIT
    from zvcore.stores.absolute import absolute
    from zvcore.stores.opening import archive_in

    if "://" not in options.path and archive_in(options.path) is None and not os.path.isdir(options.path):
        if os.path.isfile(absolute(options.path)):
            folder = os.path.dirname(absolute(options.path))
            raise UsageError(f"{options.path} is a file; what is served is a folder, such as that around it: {folder}")
        raise UsageError(f"there is no such folder: {options.path}")
    # What lies in the folder may be anybody's.
    limit = codecs.max_decoded_size
    codecs.max_decoded_size = min(limit, LARGEST_UNIT)
    try:
        serve(options)
    finally:
        codecs.max_decoded_size = limit
    return 0


def serve(options: argparse.Namespace) -> None:
    import socket

    from zvcore.commands import UsageError
    from zvcore.commands.terminal import flush, put, reading, say
    from zvcore.errors import without_credentials
    from zvcore.serving import make_server
    from zvcore.stores.absolute import absolute

    def log(line: str) -> None:
        if options.verbose:
            say(options, line)

    try:
        with reading(options.path):
            server = make_server(
                options.path, options.host, options.port,
                origin=options.origin, neuroglancer=options.neuroglancer, hosts=options.allow_host, log=log,
                threads=options.threads,
            )  # fmt: skip
    except socket.gaierror as error:
        raise UsageError(f"--host {options.host}: {error.strerror}") from error
    try:
        with server:
            told = without_credentials(options.path) if "://" in options.path else absolute(options.path)
            say(options, f"serving {told}, read only; Ctrl-C ends")
            if not is_loopback(server.server_name):
                say(options, "anyone who can reach this server can read everything in this folder")
            # On stdout, so that a script can read where it listens.
            put(server.url)
            flush()
            server.serve_forever()
    except KeyboardInterrupt:
        # The way to end it, and no fault.
        say(options, "")


def is_loopback(host: str) -> bool:
    import ipaddress

    return ipaddress.ip_address(host.partition("%")[0]).is_loopback
