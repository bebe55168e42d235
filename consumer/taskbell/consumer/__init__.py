"""Handlers for tasks, and the worker that runs them."""

from taskbell.consumer.context import Context
from taskbell.consumer.errors import InvalidHandler, Reject, RetryLater
from taskbell.consumer.registry import Consumer
from taskbell.shared.retry import RetryPolicy

__all__ = ["Consumer", "Context", "InvalidHandler", "Reject", "RetryLater", "RetryPolicy"]
