"""Which schema this code needs, told without the machinery that makes it."""

from dataclasses import dataclass
from typing import Literal

REVISIONS = ("0001",)
"""Every revision this code knows, oldest first; it needs the last."""


@dataclass(frozen=True, slots=True)
class SchemaState:
    """How the database's revision compares with the one this code was written for.

    ``missing``: no schema; ``behind``: migrate first; ``ahead``: a newer taskbell migrated it,
    which the expand-then-contract rule makes safe for this code.
    """

    answer: Literal["missing", "behind", "current", "ahead"]
    found: str | None
    needed: str

    @property
    def ready(self) -> bool:
        """Whether this code may work on the database."""
        return self.answer in {"current", "ahead"}

    def __str__(self) -> str:
        """Give one sentence that names the revisions."""
        match self.answer:
            case "missing":
                return f"the schema is missing: revision {self.needed} is needed"
            case "behind":
                return f"the schema is behind: at {self.found}, revision {self.needed} is needed"
            case "current":
                return f"the schema is current: at {self.found}"
            case "ahead":
                return (
                    f"the schema is ahead: at {self.found}, this code was written for {self.needed}"
                )


def compare(found: str | None) -> SchemaState:
    """Judge the revision that a database is at; None if it has no schema."""
    needed = REVISIONS[-1]
    if found is None:
        return SchemaState("missing", None, needed)
    if found == needed:
        return SchemaState("current", found, needed)
    return SchemaState("behind" if found in REVISIONS else "ahead", found, needed)
