"""The client's side: paho's client with subscriptions by content in a federation, and `mqloom sub` and `mqloom pub`.

`Client` stands where `paho.mqtt.client.Client` stood. Around it: a subscriber's core without IO, and drivers.
"""

from mqloom.client.application import Stats
from mqloom.client.client import Client
from mqloom.client.federation import Federation
from mqloom.core.records import Wish

__all__ = ["Client", "Federation", "Stats", "Wish"]
