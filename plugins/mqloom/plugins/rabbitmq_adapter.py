"""Broker adapter `rabbitmq`: a RabbitMQ that runs already, whose management interface tells what clients subscribe to.

    [plugins.settings.rabbitmq_adapter]
    port = 15672
    every_s = 2.0

It is asked for the bindings of `amq.topic` every `every_s` seconds, as the broker's `username`, or `guest`; that user
needs the tag `monitoring` or `management`. While it does not answer, what was known last counts.
"""

import asyncio
import base64
import contextlib
import http.client
import logging
import urllib.parse
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from mqloom.core.errors import RecordError
from mqloom.core.ids import GatewayId
from mqloom.gateway.hookspecs import hookimpl
from mqloom.gateway.interfaces import AdapterKind, BrokerAddress, Learned, Settings
from mqloom.gateway.rabbitmq_files import MANAGEMENT_PORT
from mqloom.gateway.tables import explain_settings
from mqloom.plugins.plain_clients import Overlooked, WholeInterest
from mqloom.plugins.rabbitmq_bindings import subscriptions_in

ANSWER_S_MAX: Final = 5.0
"""How long an answer of the management interface may take; and the start, which goes on without it then."""

ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
"""A longer answer is not read."""

logger = logging.getLogger(__name__)


class RabbitmqSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the management interface is, and how often it is asked."""

    port: Annotated[int, Meta(ge=1, le=65_535)] = MANAGEMENT_PORT
    tls: bool = False
    virtual_host: Annotated[str, Meta(min_length=1)] = "/"
    every_s: Annotated[float, Meta(ge=0.1, le=3_600)] = 2.0


class RabbitmqAdapter:
    """A RabbitMQ that somebody else runs."""

    def __init__(self, settings: RabbitmqSettings, address: BrokerAddress) -> None:
        self._settings = settings
        self._address = address
        self._learned: Learned | None = None
        self._interest = WholeInterest()
        self._overlooked_log = Overlooked()
        self._told: tuple[tuple[str, ...], int] = ((), 0)
        self._failed = 0
        self._asking: asyncio.Task[None] | None = None
        self._log = logging.LoggerAdapter(logger, {"gateway": "-"})

    def watch(self, gateway: GatewayId, learned: Learned) -> None:
        """Tell what plain clients subscribe to."""
        self._learned = learned
        self._log = logging.LoggerAdapter(logger, {"gateway": gateway})

    async def start(self) -> None:
        """Ask once, then again and again."""
        if self._learned is not None:
            await self._ask()
            self._asking = asyncio.create_task(self._go_on())

    async def stop(self) -> None:
        """Ask no more."""
        if self._asking is not None:
            self._asking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._asking

    async def _go_on(self) -> None:
        while True:
            await asyncio.sleep(self._settings.every_s)
            await self._ask()

    async def _ask(self) -> None:
        try:
            filters = await asyncio.to_thread(self._look)
        except (OSError, http.client.HTTPException, RecordError) as error:
            self._failed += 1
            if self._failed & (self._failed - 1) == 0:
                where = f"{self._address.host}:{self._settings.port}"
                text = "RabbitMQ's management interface at %s does not tell what clients want (%s times): %s"
                self._log.warning(text, where, self._failed, error)
            return
        self._failed = 0
        told = filters, self._interest.overlooked
        if told != self._told:
            self._told = told
            assert self._learned is not None
            self._learned(*told)
        self._overlooked_log.tell(self._log, self._interest.overlooked, self._interest.overlooked_of)

    def _look(self) -> tuple[str, ...]:
        return self._interest.look(subscriptions_in(self._fetch()))

    def _fetch(self) -> bytes:
        kind = http.client.HTTPSConnection if self._settings.tls else http.client.HTTPConnection
        connection = kind(self._address.host, self._settings.port, timeout=ANSWER_S_MAX)
        user = f"{self._address.username or 'guest'}:{self._address.password or 'guest'}"
        virtual_host = urllib.parse.quote(self._settings.virtual_host, safe="")
        with contextlib.closing(connection):
            connection.request(
                "GET",
                f"/api/exchanges/{virtual_host}/amq.topic/bindings/source",
                headers={"Authorization": "Basic " + base64.b64encode(user.encode()).decode()},
            )
            answer = connection.getresponse()
            data = answer.read(ANSWER_BYTES_MAX + 1)
        if answer.status != http.client.OK:
            raise RecordError(f"it answers {answer.status} {answer.reason}; has the user the tag `monitoring`?")
        if len(data) > ANSWER_BYTES_MAX:
            raise RecordError(f"its answer is over {ANSWER_BYTES_MAX} bytes")
        return data


@hookimpl
def mqloom_check(settings: Settings) -> Sequence[str]:
    """Explain mistakes in the settings."""
    return explain_settings(RabbitmqSettings, settings)


@hookimpl
def mqloom_adapter(settings: Settings) -> AdapterKind:
    """Offer the adapter."""
    chosen = msgspec.convert(dict(settings), RabbitmqSettings)
    return AdapterKind(name="rabbitmq", build=partial(RabbitmqAdapter, chosen))
