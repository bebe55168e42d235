"""How every revision runs: one transaction, one migrator at a time, never long in anyone's way.

Alembic executes this file; `taskbell.shared.migration` hands it a connection whose transaction it
has begun, or none when the SQL is to be printed.
"""

from alembic import context

from taskbell.shared.migrations import LOCK_TIMEOUT, SCHEMA, VERSION_TABLE

# Transaction-scoped, so that it also holds behind PgBouncer in transaction mode. The schema's
# privilege is only asked for when the schema is not there yet: a DBA may have made it.
PREPARATION = (
    f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'",
    "SET LOCAL statement_timeout = 0",
    f"SELECT pg_advisory_xact_lock(hashtextextended('{SCHEMA}.{VERSION_TABLE}', 0))",
    f"""DO $$
BEGIN
    IF to_regnamespace('{SCHEMA}') IS NULL THEN
        CREATE SCHEMA {SCHEMA};
    END IF;
END
$$""",
)

context.configure(
    connection=context.config.attributes.get("connection"),
    dialect_name="postgresql+psycopg",
    literal_binds=context.is_offline_mode(),
    version_table=VERSION_TABLE,
    version_table_schema=SCHEMA,
)
with context.begin_transaction():
    for statement in PREPARATION:
        context.execute(statement)
    context.run_migrations()
