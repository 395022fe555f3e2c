"""Which requests are answered at all: those whose end is certain, and that mean this server."""

from __future__ import annotations

import ipaddress
import re
import socket
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zvcore.serving.heads import Fields

__all__ = ["Hosts", "body_length", "check_host", "check_origin", "framing_fault", "path_of"]

_THIS_MACHINE = ("localhost", "127.0.0.1", "[::1]")
_LONGEST_LENGTH = 18
_ABSOLUTE = "http://"
# As browsers send it, who compare it sign by sign: no slash at the end.
_ORIGIN = re.compile(r"\*|null|[a-z][a-z0-9+.-]*://[!-+\--.0-~]+")
_HOST = re.compile(r"[!-+\--.0-~]+")


def check_origin(origin: str) -> None:
    """ValueError for what no page in a browser can come from: none could read, and nobody would know why."""
    if _ORIGIN.fullmatch(origin) is None or origin != origin.lower():
        raise ValueError(f"an origin is *, or one such as https://example.org without a path, not {origin!r}")


def check_host(host: str) -> None:
    """ValueError for what no request can have as its host."""
    if _HOST.fullmatch(host) is None:
        raise ValueError(f"a host is a name, maybe with a port, such as proxy.example:443, not {host!r}")


class Hosts:
    """The names under which a server may be asked for.

    A page of another site can have its own name lead to this machine (DNS rebinding); to the browser the server's
    answers are then that site's. The header `Host` gives it away. An address cannot be rebound, so a server that
    listens at all addresses of the machine answers to each of them.
    """

    def __init__(self, host: str, bound: str, port: int, others: Iterable[str] = ()) -> None:
        names = [*_THIS_MACHINE, _as_in_urls(host), _as_in_urls(bound)]
        self._port = port
        self._everywhere = ipaddress.ip_address(bound.partition("%")[0]).is_unspecified
        if self._everywhere:
            names.append(socket.gethostname())
        self._known = {known for name in names for known in _with_port(name, port)}
        for other in others:
            self._known |= {other.lower()} if _port_of(other) is not None else _with_port(other, port)

    def fault(self, fields: Fields) -> tuple[HTTPStatus, str] | None:
        """Why a request is not for this server; None: it is."""
        given = fields.all("Host")
        if len(given) != 1:
            return HTTPStatus.BAD_REQUEST, "a request has one Host"
        host = given[0].strip().lower()
        if host in self._known or (self._everywhere and self._is_address(host)):
            return None
        return HTTPStatus.MISDIRECTED_REQUEST, "this server is not known by that name (see --allow-host)"

    def has(self, url: str) -> bool:
        """Whether a URL leads to this server."""
        parts = urlsplit(url)
        return parts.scheme == "http" and parts.netloc.lower() in self._known

    def _is_address(self, host: str) -> bool:
        for port in (f":{self._port}", "") if self._port == 80 else (f":{self._port}",):
            address = host.removesuffix(port)
            if not host.endswith(port) or "%" in address:
                continue
            try:
                if address.startswith("["):
                    return address.endswith("]") and bool(ipaddress.IPv6Address(address[1:-1]))
                return bool(ipaddress.IPv4Address(address))
            except ValueError:
                continue
        return False


def path_of(target: str, fields: Fields) -> str:
    """The path that a request asks for, with its query, in ASCII.

    As to a proxy, it may be asked for by its whole URL. The host in that is then the one that is meant, and takes the
    place of what `Host` says (RFC 9112, 3.2.2).
    """
    # Many clients send bytes that are no ASCII as they are, which Python reads as Latin-1.
    if not target.isascii():
        target = "".join(sign if sign.isascii() else f"%{ord(sign):02X}" for sign in target)
    if target[: len(_ABSOLUTE)].lower() != _ABSOLUTE:
        return target
    rest = target[len(_ABSOLUTE) :]
    host = re.split("[/?#]", rest, maxsplit=1)[0]
    if len(fields.all("Host")) == 1:
        fields.put("Host", host)
    path = rest[len(host) :]
    # As of any request: what begins with two slashes would be taken for a host where it is sent on.
    return f"/{path.lstrip('/')}"


def _as_in_urls(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _with_port(name: str, port: int) -> set[str]:
    name = name.lower()
    return {f"{name}:{port}", name} if port == 80 else {f"{name}:{port}"}


def _port_of(host: str) -> int | None:
    name, mark, port = host.rpartition(":")
    return int(port) if mark and name and "]" not in port and port.isascii() and port.isdecimal() else None


def framing_fault(fields: Fields) -> str | None:
    """Why it is not certain where a request ends; None: it is."""
    if not fields.sound:
        return "a line of the head is not a header"
    lengths = fields.all("Content-Length")
    codings = fields.all("Transfer-Encoding")
    if len(lengths) > 1 or len(codings) > 1 or (lengths and codings):
        return "the length of the body is given more than once"
    if lengths and not (lengths[0].isascii() and lengths[0].isdecimal() and len(lengths[0]) <= _LONGEST_LENGTH):
        return "Content-Length is a number"
    return None


def body_length(fields: Fields) -> int | None:
    """How many bytes of the request follow; None: not known in advance. For requests without a `framing_fault`."""
    return None if "Transfer-Encoding" in fields else int(fields.get("Content-Length") or "0")
