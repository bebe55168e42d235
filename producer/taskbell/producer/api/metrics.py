"""What /metrics tells: counts of requests and answers, and the measured queues."""

from taskbell.shared.events import Event


class Metrics:
    """Counts."""

    def observe(self, event: Event) -> None:
        """Count what an event reports."""
