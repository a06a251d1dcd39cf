"""Serves one page to Prometheus: `GET /metrics`. As much of HTTP/1.1 as that takes, with a bound on everything.

A connection past METRICS_CONNECTIONS_MAX at a time, and one that takes longer than METRICS_REQUEST_S, is closed; a
request of more than METRICS_REQUEST_BYTES_MAX is refused. Every answer ends the connection: Prometheus comes every ten
seconds or so.
"""

import asyncio
import contextlib
import resource
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from mqloom.core.errors import LocalError
from mqloom.core.limits import METRICS_CONNECTIONS_MAX, METRICS_REQUEST_BYTES_MAX, METRICS_REQUEST_S
from mqloom.gateway.metrics import CONTENT_TYPE, Process


class MetricsAddress(NamedTuple):
    """Where a gateway's metrics are served; with port 0 nowhere."""

    host: str
    port: int


class MetricsServer:
    """Serves from `async with` to its end; raises LocalError if it cannot."""

    def __init__(self, address: MetricsAddress, page: Callable[[], str]) -> None:
        self._address = address
        self._page = page
        self._open = 0
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The port on which it serves."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def __aenter__(self) -> "MetricsServer":
        host, port = self._address
        try:
            self._server = await asyncio.start_server(self._serve, host, port, limit=METRICS_REQUEST_BYTES_MAX)
        except OSError as error:
            problem = f"metrics cannot be served on {host}:{port}: {error.strerror or error}"
            raise LocalError(f"{problem}; choose another `metrics_port`, or 0 for none") from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._server.wait_closed(), METRICS_REQUEST_S)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            async with asyncio.timeout(METRICS_REQUEST_S):
                if self._open <= METRICS_CONNECTIONS_MAX:
                    writer.write(self._answer(await reader.readuntil(b"\r\n\r\n")))
                    await writer.drain()
        except asyncio.LimitOverrunError:
            writer.write(_answer("431 Request Header Fields Too Large", "the request is too large\n"))
        except (asyncio.IncompleteReadError, OSError, TimeoutError):
            pass  # whoever it was is gone, or too slow
        finally:
            self._open -= 1
            writer.close()

    def _answer(self, head: bytes) -> bytes:
        method, _, rest = head.decode("latin-1").partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        if method not in ("GET", "HEAD"):
            return _answer("405 Method Not Allowed", "only GET\n", "Allow: GET, HEAD\r\n")
        if path != "/metrics":
            return _answer("404 Not Found", "there is only /metrics\n")
        answer = _answer("200 OK", self._page())
        return answer if method == "GET" else answer.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"


def process_figures() -> Process:
    """Return what the operating system says of this process."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        resident_bytes = pages * resource.getpagesize()
    except (OSError, ValueError, IndexError):  # not Linux
        resident_bytes = None
    return Process(time.process_time(), resident_bytes)


def _answer(status: str, text: str, more: str = "") -> bytes:
    body = text.encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {len(body)}\r\n{more}"
    return f"{head}Connection: close\r\n\r\n".encode() + body
