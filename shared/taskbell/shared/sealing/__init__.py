"""Sealing: payloads, results and errors under AES-256-GCM, bound to their task and owner."""

from taskbell.shared.sealing.envelope import SEALED, Kind, is_sealed, key_id_of
from taskbell.shared.sealing.seals import Seals, TaskSeal, opened_text

__all__ = ["SEALED", "Kind", "Seals", "TaskSeal", "is_sealed", "key_id_of", "opened_text"]
