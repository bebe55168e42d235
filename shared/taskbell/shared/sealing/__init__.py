"""Sealing: payloads, results and errors under AES-256-GCM, bound to their task and owner."""

from taskbell.shared.sealing.envelope import Kind
from taskbell.shared.sealing.seals import Seals, TaskSeal

__all__ = ["Kind", "Seals", "TaskSeal"]
