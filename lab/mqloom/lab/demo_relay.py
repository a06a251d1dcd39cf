"""A relay before a real broker, which says and loses what no real broker does on demand: for whoever tries clients."""

import contextlib
import socket
import threading
from typing import Final

HOST: Final = "127.0.0.1"


class Relay:
    """What a client takes for its broker: hands everything on to a real one, until it is told to send clients away."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._server = socket.create_server((HOST, 0))
        self.port: int = self._server.getsockname()[1]
        self.refusal = b""
        """What a client that connects is answered, in place of the broker."""
        self.deaf_after = b""
        """Of what a client sends, nothing is handed on behind this; in its next connection it is."""
        self.connections = 0
        self._open: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def send_away(self, code: int, reference: str) -> None:
        """End every connection, and refuse the next ones, with this reason and reference."""
        self.refusal = b"\x20" + _sized(b"\0" + _said(code, reference))
        for each in self._open:
            with contextlib.suppress(OSError):
                each.sendall(b"\xe0" + _sized(_said(code, reference)))
                each.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """End every connection."""
        for each in self._open:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End, with every connection."""
        self._server.close()
        for each in self._open:
            each.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # it is closed
            while True:
                client, _ = self._server.accept()
                self.connections += 1
                self._open.append(client)
                threading.Thread(target=self._relay, args=(client,), daemon=True).start()

    def _relay(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            refusal = self.refusal
            if refusal:
                client.recv(4_096)
                client.sendall(refusal)
                client.recv(1)
                return
            with socket.create_connection((HOST, self._to)) as broker:
                threading.Thread(target=_copy, args=(broker, client), daemon=True).start()
                _copy(client, broker, self.deaf_after)


def _copy(source: socket.socket, to: socket.socket, deaf_after: bytes = b"") -> None:
    is_deaf = False
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            if not is_deaf:
                to.sendall(data)
            is_deaf = is_deaf or (bool(deaf_after) and deaf_after in data)
    with contextlib.suppress(OSError):
        to.shutdown(socket.SHUT_RDWR)


def _said(code: int, reference: str) -> bytes:
    text = reference.encode()
    properties = b"\x1c" + len(text).to_bytes(2, "big") + text
    return bytes([code, len(properties)]) + properties


def _sized(body: bytes) -> bytes:
    return bytes([len(body)]) + body
