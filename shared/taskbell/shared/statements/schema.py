"""Which revision the schema is at."""

from taskbell.shared.statement import Statement

VERSION_TABLE = Statement("SELECT to_regclass('taskbell.schema_version') AS found")
"""A statement of its own: the next one cannot even be planned without the table."""

REVISION = Statement("SELECT v.version_num AS revision FROM taskbell.schema_version v")
