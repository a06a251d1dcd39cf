"""What commands about a federation that runs share: going to its brokers, and reading what gateways keep there."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from mqloom.core import layout
from mqloom.core.errors import BrokerError
from mqloom.core.ids import GatewayId
from mqloom.gateway.assembly import reachable_brokers
from mqloom.gateway.command_options import WAIT_S
from mqloom.gateway.configuration import Configuration
from mqloom.gateway.drivers.visiting import Visit, visiting
from mqloom.gateway.interfaces import BrokerAddress

Found = TypeVar("Found")
Read = Callable[[GatewayId, bytes | None, Sequence[bytes | None]], Found | str]
"""Makes something of a gateway's status and of what else it keeps, topic by topic, or says why it cannot."""


def address_of(configuration: Configuration, gateway: GatewayId) -> BrokerAddress:
    """Return where a broker is; raises BrokerError if it cannot be gone to from here."""
    addresses, problems = reachable_brokers(configuration)
    if gateway in problems:
        raise BrokerError(gateway, problems[gateway])
    return addresses[gateway]


def read_all(
    configuration: Configuration,
    topics_of: Sequence[Callable[[GatewayId], str]],
    read: Read[Found],
    wait_s: float = WAIT_S,
) -> tuple[dict[GatewayId, Found], dict[GatewayId, str]]:
    """Read from every broker what its gateway keeps on some topics; return that, and why there is none of the others.

    Brokers send what is kept in the order of the topics: what there need not be belongs before what there must be.
    """

    def read_one(gateway: GatewayId, visit: Visit) -> Found | str:
        kept = [visit.messages.get(topic_of(gateway)) for topic_of in topics_of]
        return read(gateway, visit.messages.get(layout.status(gateway)), kept)

    def has_all(gateway: GatewayId, visit: Visit) -> bool:
        """Whether what is kept there has come, and belongs together."""
        return visit.is_ready and not isinstance(read_one(gateway, visit), str)

    addresses, problems = reachable_brokers(configuration)
    places = {
        gateway: (address, (layout.status(gateway), *(topic_of(gateway) for topic_of in topics_of)))
        for gateway, address in addresses.items()
    }
    found: dict[GatewayId, Found] = {}
    with visiting(places) as visits:
        visits.wait(has_all, wait_s)
        for gateway, visit in visits.each.items():
            problem = visit.problem
            if not problem and not visit.is_ready:
                problem = f"it does not answer within {wait_s:g} s; is it an MQTT broker?"
            kept = problem or read_one(gateway, visit)
            if isinstance(kept, str):
                problems[gateway] = f"broker at {visit.address}: {kept}"
            else:
                found[gateway] = kept
    return found, problems
