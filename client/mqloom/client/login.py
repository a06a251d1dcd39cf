"""Which broker, and as whom: the client's commands have the connection options that all commands share."""

from mqloom.core.broker_login import BrokerLogin, add_connection_options, login_of

__all__ = ["BrokerLogin", "add_connection_options", "login_of"]
