"""Handlers for tasks, and the worker that runs them."""

from taskbell.consumer.context import Context
from taskbell.consumer.effect import Effect
from taskbell.consumer.errors import (
    AttemptTimeout,
    CommitUnknown,
    InvalidEffect,
    InvalidHandler,
    LeaseLost,
    Reject,
    RetryLater,
)
from taskbell.consumer.registry import Consumer
from taskbell.shared.retry import Delays, Exponential, Fixed

__all__ = [
    "AttemptTimeout",
    "CommitUnknown",
    "Consumer",
    "Context",
    "Delays",
    "Effect",
    "Exponential",
    "Fixed",
    "InvalidEffect",
    "InvalidHandler",
    "LeaseLost",
    "Reject",
    "RetryLater",
]
