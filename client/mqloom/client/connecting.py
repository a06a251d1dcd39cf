"""How the client's commands come to a broker: it is reached, it accepts us, and what goes wrong is said in words."""

import contextlib
import queue
import time
from typing import Any, Final

from paho.mqtt.client import Client, MQTTMessageInfo
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from mqloom.client.limits import CONNECT_S, LEAVE_S, RECONNECT_S_MAX, TRY_AGAIN_S
from mqloom.core.broker_login import BrokerLogin
from mqloom.core.errors import BrokerError
from mqloom.core.tls import tls_context, tls_problem

_LOGIN_REASONS: Final = ("Not authorized", "Bad user name or password")


class Hello:
    """The first connection of a client; later ones its loop gets back by itself.

    The client's `on_connect` and `on_disconnect` are to tell what they hear (`answered`, `hung_up`).
    """

    def __init__(self, client: Client, login: BrokerLogin) -> None:
        self._client = client
        self._login = login
        self._first: queue.Queue[str] = queue.Queue(maxsize=1)  # what was heard first: a problem, or none
        client.connect_timeout = CONNECT_S
        client.reconnect_delay_set(1, RECONNECT_S_MAX)
        if login.username:
            client.username_pw_set(login.username, login.password or None)
        if login.tls is not None:
            client.tls_set_context(tls_context(login.tls))
            client.tls_insecure_set(not login.tls.check_hostname)

    def open(self) -> None:
        """Connect, and run the client's loop in a thread; raises BrokerError if nobody is there, or it refuses us."""
        self._reach()
        self._client.loop_start()
        try:
            problem = self._first.get(timeout=CONNECT_S)
        except queue.Empty:
            problem = f"accepts connections, but says no MQTT within {CONNECT_S:g} s"
        if problem:
            self.close()
            raise BrokerError(self._login.address, problem)

    def close(self) -> None:
        """Disconnect, and end the thread."""
        self._client.disconnect()
        self._client.loop_stop()

    def answered(self, reason: Any) -> bool:
        """The broker has answered; return whether it accepts us."""
        hint = "; see --username and --password-env" if reason.getName() in _LOGIN_REASONS else ""
        self._hear(f"refuses us: {reason}{hint}" if reason.is_failure else "")
        return not reason.is_failure

    def hung_up(self, reason: Any) -> None:
        """The connection is gone."""
        self._hear(f"hangs up instead of answering ({reason})")

    def _hear(self, problem: str) -> None:
        with contextlib.suppress(queue.Full):  # only the first answer matters
            self._first.put_nowait(problem)

    def _reach(self) -> None:
        """Connect; a broker that is not there yet may just be starting, and is tried for CONNECT_S."""
        deadline = time.monotonic() + CONNECT_S
        while True:
            try:
                self._client.connect(self._login.host, self._login.port)
            except ConnectionRefusedError as error:
                if time.monotonic() >= deadline:
                    problem = f"cannot be reached ({error}), for {CONNECT_S:g} s now; is it running?"
                    raise BrokerError(self._login.address, problem) from error
            except (OSError, ValueError) as error:
                problem = tls_problem(error) if isinstance(error, OSError) else ""
                raise BrokerError(self._login.address, problem or f"cannot be reached ({error})") from error
            else:
                return
            time.sleep(TRY_AGAIN_S)


class Connection:
    """A connection that publishes; a context manager that opens and closes it.

    Entering raises BrokerError if the broker cannot be reached, does not answer, or refuses us.
    """

    def __init__(self, login: BrokerLogin, mqtt_client_id: str) -> None:
        self.login = login
        self._sent: list[MQTTMessageInfo] = []
        self._client = Client(CallbackAPIVersion.VERSION2, mqtt_client_id, protocol=MQTTProtocolVersion.MQTTv311)
        self._hello = Hello(self._client, login)
        self._client.on_connect = lambda _client, _data, _flags, reason, _properties: self._answered(reason)
        self._client.on_disconnect = lambda _client, _data, _flags, reason, _properties: self._hello.hung_up(reason)

    def __enter__(self) -> "Connection":
        self._hello.open()
        return self

    def __exit__(self, *_: object) -> None:
        deadline = time.monotonic() + LEAVE_S
        for info in self._sent:
            with contextlib.suppress(RuntimeError, ValueError):  # it will never be sent
                info.wait_for_publish(max(0.01, deadline - time.monotonic()))
        self._hello.close()

    def publish(self, topic: str, payload: bytes, qos: int, *, retain: bool) -> MQTTMessageInfo:
        """Publish; what is returned tells when the broker has acknowledged it."""
        info = self._client.publish(topic, payload, qos, retain)
        self._sent = [each for each in self._sent if not _is_done(each)] + [info]
        return info

    def _answered(self, reason: Any) -> None:
        self._hello.answered(reason)


def _is_done(info: MQTTMessageInfo) -> bool:
    try:
        return info.is_published()
    except (RuntimeError, ValueError):  # it will never be sent
        return True
