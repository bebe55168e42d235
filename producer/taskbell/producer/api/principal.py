"""Who calls, and what they may."""

from dataclasses import dataclass

from taskbell.shared.access import Scope

__all__ = ["Principal", "Scope"]


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller whose credentials were found good."""

    name: str
    """The prefix of a key or the subject of a token: the actor of audit_log."""
    owner_id: str
    scopes: frozenset[Scope]
    key: str | None = None
    """The prefix of the key whose rate counts; None for tokens."""

    def may(self, scope: Scope) -> bool:
        """Whether this scope was granted; an administrator may everything."""
        return scope in self.scopes or Scope.ADMIN in self.scopes

    @property
    def reach(self) -> str | None:
        """The owner whose tasks can be seen; None, every owner's, for an administrator."""
        return None if Scope.ADMIN in self.scopes else self.owner_id
