"""A reader's end of the collector: asks over ZeroMQ, again if no answer comes, for so long and no longer."""

import itertools
from collections import deque
from collections.abc import Sequence
from typing import Final

import zmq

from mqloom.core.telemetry_keys import Curve
from mqloom.core.telemetry_sockets import connect
from mqloom.spark_analytics.ranges import AskedRanges, NoAnswerError, RangeError

ANSWER_S: Final = 10.0
"""How long one question waits for its answer before it is asked again, on a new connection."""

TRIES: Final = 6


class Asking:
    """One connection to a collector's readers' address; asks one question at a time."""

    def __init__(
        self,
        endpoint: str,
        curve: Curve | None = None,
        *,
        others: Sequence[Curve] = (),
        answer_s: float = ANSWER_S,
        tries: int = TRIES,
    ):
        self._endpoint = endpoint
        self._curves = deque([curve, *others])  # while keys are rotated, another may be right
        self._answer_s = answer_s
        self._tries = tries
        self._numbers = itertools.count(1)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket: zmq.Socket[bytes] | None = None

    def ranges(self) -> AskedRanges:
        """Return what there is to read."""
        return AskedRanges(self.ask)

    def ask(self, question: bytes) -> bytes:
        """Return the answer; raises NoAnswerError if nobody gives one, RangeError if there is no such address."""
        for _ in range(self._tries):
            number = next(self._numbers).to_bytes(8, "big")
            try:
                if self._socket is None:
                    self._socket = connect(self._context, self._endpoint, self._curves[0])
                self._socket.send_multipart([number, question], zmq.NOBLOCK)
                while self._socket.poll(round(self._answer_s * 1_000)):
                    answered, answer = self._socket.recv_multipart()
                    if answered == number:
                        return answer
            except zmq.Again:
                pass
            except zmq.ZMQError as error:
                raise RangeError(f"{self._endpoint}: {error}: it should look like tcp://host:5571") from None
            self._hang_up()
            self._curves.rotate(-1)
        waited_s = self._answer_s * self._tries
        hint = "is `mqloom collect` running there, with the same telemetry key, and is this its address for readers?"
        raise NoAnswerError(f"no answer from {self._endpoint} within {waited_s:g} s: {hint}")

    def _hang_up(self) -> None:
        if self._socket is not None:
            self._socket.close(linger=0)
            self._socket = None

    def close(self) -> None:
        """End the connection."""
        self._hang_up()
        self._context.destroy(linger=0)
