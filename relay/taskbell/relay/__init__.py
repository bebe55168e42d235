"""The relay announces committed tasks to RabbitMQ: ``taskbell relay``, any number of them."""

from taskbell.relay.publisher import Publisher
from taskbell.relay.relay import Relay
from taskbell.relay.settings import RelaySettings

__all__ = ["Publisher", "Relay", "RelaySettings"]
