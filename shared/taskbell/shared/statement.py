"""One SQL text, readable as it stands, for both ways in which it is sent."""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # loading it costs a process half a second, and only some send through it
    from sqlalchemy import TextClause

_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)\b")


@dataclass(frozen=True)
class Statement:
    """SQL whose parameters are written ``:name``.

    Casts are written ``CAST(:x AS t)``: in ``:x::t`` SQLAlchemy does not see the parameter.
    """

    sql: str

    @cached_property
    def for_psycopg(self) -> bytes:
        """The text with psycopg's ``%(name)s`` placeholders."""
        return _PARAMETER.sub(r"%(\1)s", self.sql.replace("%", "%%")).encode()

    @cached_property
    def for_sqlalchemy(self) -> "TextClause":
        """The text as a clause that any SQLAlchemy session or connection executes."""
        from sqlalchemy import text  # noqa: PLC0415 - see above

        return text(self.sql)

    @property
    def parameters(self) -> frozenset[str]:
        """The names of the parameters."""
        return frozenset(_PARAMETER.findall(self.sql))
