"""The Alembic environment and the revisions of the schema `taskbell`, shipped with the package."""

SCHEMA = "taskbell"
VERSION_TABLE = "schema_version"
# A pending exclusive lock blocks everybody behind it: after this long it makes way and tries again.
LOCK_TIMEOUT = "2s"
