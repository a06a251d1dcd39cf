"""paho's client, with a bound on what it keeps of one packet: paho itself reads up to MQTT's 256 MiB into memory.

The end of a larger packet is read and forgotten as it comes, as the other client does (see `packets`): what is left is
refused by whoever it is for. To end the connection would not do, for the broker would send the same packet again.
"""

from typing import Final

import paho.mqtt.client as paho

from mqloom.core.limits import READ_BYTES_MAX

PIECE_BYTES_MAX: Final = 64 * 1024
"""Bytes that are read from the network at a time."""


class BoundedClient(paho.Client):
    """See above."""

    def _sock_recv(self, bufsize: int) -> bytes:
        """Read for paho's `_packet_read`, which asks for the whole rest of a packet, and counts down what is missing.

        Of what is past the bound one byte of each piece is handed over, so that paho does not take it for the end of
        the connection, and the others are counted as read. The network decides how many pieces there are, so the bytes
        of earlier ones are taken away again: what is kept is the bound and one piece at most, however small they come.
        """
        data: bytes = super()._sock_recv(min(bufsize, PIECE_BYTES_MAX))
        packet = self._in_packet
        if len(packet["packet"]) < READ_BYTES_MAX:
            return data
        del packet["packet"][READ_BYTES_MAX:]
        packet["to_process"] -= max(0, len(data) - 1)
        return data[:1]
