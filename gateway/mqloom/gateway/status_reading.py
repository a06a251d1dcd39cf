"""What a broker keeps of its gateway's status, read by commands: the status of one that runs, or why there is none."""

from mqloom.core.errors import RecordError
from mqloom.core.records import Status, decode_status


def running_status(status: bytes | None) -> Status | str:
    """Return the status of a gateway that runs, or what is wrong in words."""
    if not status:
        return "its broker knows of no gateway; is it running beside it, with this id?"
    try:
        said = decode_status(status)
    except RecordError as error:
        return f"its status cannot be read: {error.problem}"
    return said if said.alive else "the gateway is not running; its broker is"
