"""Where telemetry is to be read: a folder at hand, or a collector's address; in a form that travels to executors."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from mqloom.core.errors import ConfigurationError, LocalError
from mqloom.core.telemetry_key_file import telemetry_secrets
from mqloom.core.telemetry_keys import Curve, peer_curve
from mqloom.spark_analytics.asking import Asking
from mqloom.spark_analytics.ranges import LocalRanges, Ranges


@dataclass(frozen=True, slots=True)
class Place:
    """A spool, by its absolute path or by the address at which its collector serves readers."""

    spool: str = ""
    endpoint: str = ""
    key_file: str = ""
    """The absolute path of a file with the federation's telemetry key, where whoever reads has it."""

    @contextmanager
    def ranges(self) -> Iterator[Ranges]:
        """Open it for reading."""
        if self.spool:
            yield LocalRanges(Path(self.spool))
            return
        curves = self._curves()
        asking = Asking(self.endpoint, next(iter(curves), None), others=curves[1:])
        try:
            yield asking.ranges()
        finally:
            asking.close()

    def options(self) -> dict[str, str]:
        """Return it as options of the source."""
        return {name: value for name, value in asdict(self).items() if value}

    def _curves(self) -> list[Curve]:
        """Return the keys to try, the likeliest first; raises ConfigurationError for a file without any."""
        if not self.key_file:
            return []
        secrets = telemetry_secrets(Path(self.key_file))
        if not secrets:
            raise ConfigurationError(self.key_file, ("has no telemetry key; `mqloom keys telemetry` adds one",))
        return [peer_curve(secret) for secret in secrets]

    def __str__(self) -> str:
        return self.spool or self.endpoint


def place_of(spool: str | Path | None, endpoint: str | None, key_file: str | Path | None = None) -> Place:
    """Return where to read; raises LocalError unless it is exactly one place.

    Paths become absolute here, for executors have other working directories.
    """
    if bool(spool) == bool(endpoint):
        raise LocalError("telemetry is read from one place: give a folder (spool) or an address (endpoint)")
    if spool:
        return Place(spool=str(Path(spool).absolute()))
    return Place(endpoint=endpoint or "", key_file=str(Path(key_file).absolute()) if key_file else "")
