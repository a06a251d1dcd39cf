"""What a gateway says of itself on its own broker, retained, and what it finds said there.

Our status comes back to us behind all records that the broker keeps. Somebody else's in its place is corrected; one of
an earlier run of ours with a larger epoch ends us, for neighbours would take whatever we say for old.
"""

import asyncio
from collections.abc import Callable
from importlib.metadata import version

from mqloom.core import layout
from mqloom.core.errors import BrokerError, RecordError
from mqloom.core.ids import GatewayId
from mqloom.core.limits import STATUS_EVERY_S
from mqloom.core.records import Status, decode_status, encode_status, is_of_earlier_run
from mqloom.gateway.drivers.mqtt import Received
from mqloom.gateway.interfaces import BrokerAddress
from mqloom.gateway.sealing import Sealing


class OwnStatus:
    """The status of one gateway."""

    def __init__(
        self,
        gateway: GatewayId,
        epoch: int,
        sealing: Sealing | None,
        address: BrokerAddress,
        write: Callable[[str, bytes], None],
        refuse: Callable[[str, str], None],
        fail: Callable[[Exception], None],
    ) -> None:
        self._gateway = gateway
        self._epoch = epoch
        self._sealing = sealing
        self._address = address
        self._write = write
        self._refuse = refuse
        self._fail = fail
        self._topic = layout.status(gateway)
        self._loop = asyncio.get_running_loop()
        self._said_at = 0.0
        self._correction: asyncio.TimerHandle | None = None

    def encoded(self, *, alive: bool) -> bytes:
        """Return our status as it is written, with its seal if there is a key."""
        return encode_status(self._status(alive=alive))

    def _status(self, *, alive: bool) -> Status:
        status = Status(alive=alive, gateway=self._gateway, version=version("mqloom"), epoch=self._epoch)
        return status if self._sealing is None else self._sealing.signed(status)

    def read(self, topic: str, payload: bytes) -> Status | None:
        """Return a status of any gateway, if it is one, and to be believed; else it is counted."""
        try:
            status = decode_status(payload)
        except RecordError as error:
            self._refuse("status", f"on {topic}: {error}")
            return None
        return status if self._sealing is None or self._sealing.believes(status) else None

    def say(self) -> None:
        """Write that we are alive."""
        self.rest()
        self._said_at = self._loop.time()
        self._write(self._topic, self.encoded(alive=True))

    def rest(self) -> None:
        """Correct nothing any more."""
        if self._correction is not None:
            self._correction.cancel()
            self._correction = None

    def came(self, message: Received) -> bool:
        """Something came on its topic; whether it is what we said: then all that was there before has come."""
        if message.payload == self.encoded(alive=True):
            return True
        if message.retain:
            self._compare_epochs(message.payload)
        elif self._correction is None:
            ours = self._status(alive=False)  # our own last will, perhaps
            if message.payload != encode_status(ours) and not is_of_earlier_run(message.payload, ours):
                self._refuse("status", f"somebody else wrote {message.topic}: is there another gateway of our name?")
            self._correction = self._loop.call_at(self._said_at + STATUS_EVERY_S, self.say)
        return False

    def _compare_epochs(self, payload: bytes) -> None:
        earlier = self.read(self._topic, payload) if payload else None
        if earlier is None or earlier.gateway != self._gateway or earlier.epoch <= self._epoch:
            return
        problem = (
            f"gateway {self._gateway} ran here before with epoch {earlier.epoch}, now it would be {self._epoch}: "
            f"the clock has gone back. Set it, or delete the retained message on {self._topic}"
        )
        self._fail(BrokerError(f"{self._address.host}:{self._address.port}", problem))
