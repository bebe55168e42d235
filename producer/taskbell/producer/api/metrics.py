"""What /metrics tells: counts of requests and answers, and the measured queues."""


class Metrics:
    """Counts."""
