"""Which gateway stands beside the broker: by its status, or, where the broker replays that to no wildcard, by asking.

A gateway says that it is alive in its retained status. Not every broker replays a retained message to a subscription
with `+`: if nothing has come for LOOK_S, the topic `here` says whose broker this is, and its own status is asked for.
"""

from mqloom.client.inbox import Heard, Inbox
from mqloom.client.limits import ANSWER_S, FIND_S, LOOK_S
from mqloom.client.vocabulary import MessageReceived, Subscribe
from mqloom.core import layout
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.records import Status


class Lookout:
    """What one client knows of the gateway at one broker; `wanted` is the only one that counts, if it is named."""

    def __init__(self, inbox: Inbox, wanted: GatewayId | None) -> None:
        self.topic = layout.all_status() if wanted is None else layout.status(wanted)
        """Where gateways say that they are alive."""
        self.found: Status | None = None
        """The one that we asked last."""
        self.nearest: GatewayId | None = None
        """The gateway of this broker, alive or not, as far as we have heard of one."""
        self.look_at: float | None = None
        """When it is time to `look`."""
        self._inbox = inbox
        self._needs_wildcard = wanted is None

    @property
    def gateway(self) -> GatewayId | None:
        """The name of the one that we asked last."""
        return None if self.found is None else self.found.gateway

    def begin(self, now: float) -> Subscribe:
        """Look for a gateway, or for the one that we had."""
        self.look_at = now + LOOK_S if self._needs_wildcard else None
        return Subscribe(topic=self.topic, qos=1)

    def look(self) -> Subscribe:
        """Ask in a way that needs no wildcard."""
        self.look_at = None
        return Subscribe(topic=layout.here(), qos=1)

    def take(self, status: Status) -> None:
        """Turn to this one."""
        self.found = status
        self.look_at = None

    def hear(self, message: MessageReceived) -> Heard | Subscribe | None:
        """Return what some gateway says of itself; or, of the word whose broker this is, what is to be asked for."""
        if message.topic == layout.here():
            here = self._inbox.here(message.payload)
            return None if here is None else Subscribe(topic=layout.status(here), qos=1)
        heard = self._inbox.status(message)
        if heard is not None and self.found is None:
            self.nearest = heard.gateway
        return heard

    def nobody_here(self) -> str:
        """Return what is wrong when no gateway is found."""
        problem = f"no gateway answers at this broker: nothing alive on {self.topic} within {FIND_S:g} s"
        return f"{problem}; is `mqloom gateway` running beside it, and may we read that topic?"

    def nothing_read(self) -> str:
        """Return what is waited for when what an earlier life has left may stand behind publications."""
        waits = "it may wait behind publications that are not acknowledged, and is waited for"
        return f"what an earlier life of this client has left at {self.gateway} has not come yet; {waits}"

    def nobody_answers(self, client: ClientId) -> str:
        """Return what is wrong when the gateway that is found does not answer a record."""
        assert self.gateway is not None
        record, answers = layout.record(self.gateway, client), layout.control(self.gateway, client)
        problem = f"the gateway {self.gateway} has answered nothing within {ANSWER_S:g} s"
        hint = f"does the broker's access list let us write {record} and read {answers}?"
        return f"{problem}, although its status says that it is alive; {hint}"
