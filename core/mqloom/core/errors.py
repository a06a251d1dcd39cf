"""Every error MQLoom raises, and whose mistake each one is.

    MQLoomError
    |-- LocalError               ours to mend: this installation, this operator
    |   |-- ConfigurationError   federation.toml does not describe a federation
    |   |-- PluginError          a plugin does not load, or does not answer as its hook demands
    |   `-- BrokerError          a broker does not answer, or refuses us
    `-- RemoteError              somebody else's: counted, answered, and it costs nobody else anything
        |-- FilterError          a WHERE that does not parse, with the column of the mistake
        |-- TopicError           not a topic, or not a topic filter, of MQTT
        |-- FrameError           bytes on a link that are no frame of ours
        |-- RecordError          a client's subscription record that cannot be read
        `-- OrderError           an order to a client, or a roster, that does not count

Every error carries what happened as fields, and says it in `str()` with what to do about it.
"""


class MQLoomError(Exception):
    """The base of all errors raised by MQLoom."""


class LocalError(MQLoomError):
    """Something on our own side is wrong: the operator can mend it."""


class RemoteError(MQLoomError):
    """Somebody else sent something wrong: it is refused, and the rest goes on."""


class ConfigurationError(LocalError):
    """A configuration with mistakes; `problems` has one sentence for each."""

    def __init__(self, source: str, problems: tuple[str, ...]) -> None:
        self.source = source
        self.problems = problems
        count = f"{len(problems)} mistake" + ("" if len(problems) == 1 else "s")
        super().__init__("\n".join([f"{source}: {count}", *(f"  - {problem}" for problem in problems)]))


class PluginError(LocalError):
    """A plugin that could not be loaded or built; names it and where it came from."""

    def __init__(self, plugin: str, source: str, problem: str) -> None:
        self.plugin = plugin
        self.source = source
        self.problem = problem
        super().__init__(f"plugin {plugin!r} ({source}): {problem}")


class BrokerError(LocalError):
    """A broker that cannot be reached or refuses us."""

    def __init__(self, address: str, problem: str) -> None:
        self.address = address
        self.problem = problem
        super().__init__(f"broker at {address}: {problem}")


class FilterError(RemoteError):
    """A filter that does not parse; `column` counts from 1 in `text`."""

    def __init__(self, problem: str, text: str, column: int) -> None:
        self.problem = problem
        self.text = text
        self.column = column
        super().__init__(f"column {column}: {problem}")

    def pointer(self) -> str:
        """Return the text with a caret under the mistake, for people."""
        line = self.text.replace("\n", " ").replace("\t", " ")
        return f"{line}\n{' ' * (self.column - 1)}^ {self.problem}"


class TopicError(RemoteError):
    """A topic or topic filter that MQTT does not allow."""

    def __init__(self, problem: str, topic: str) -> None:
        self.problem = problem
        self.topic = topic
        super().__init__(f"topic {topic[:100]!r}: {problem}")


class FrameError(RemoteError):
    """Bytes from a link that are refused; `reason` is the name of the counter."""

    def __init__(self, reason: str, problem: str) -> None:
        self.reason = reason
        self.problem = problem
        super().__init__(f"frame refused ({reason}): {problem}")


class RecordError(RemoteError):
    """A client's subscription record that cannot be read at all."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"subscription record refused: {problem}")


class OrderError(RemoteError):
    """An order to a client, a roster, or an answer to an order that does not count; `reason` is the counter's name."""

    def __init__(self, reason: str, problem: str) -> None:
        self.reason = reason
        self.problem = problem
        super().__init__(f"not obeyed ({reason}): {problem}")


class TelemetryError(RemoteError):
    """Bytes that were taken for telemetry and are none."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"telemetry refused: {problem}")
