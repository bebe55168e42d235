"""The migrated schema, the mapped classes and the script for DBAs say the same.

Alembic's own comparison does not look at CHECKs, predicates, storage parameters or column order:
the catalogs of the databases are compared for these.
"""

import re
from typing import Any

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import NullPool, create_engine, text

from support.workers import rows
from taskbell.shared import migration
from taskbell.shared.database import conninfo
from taskbell.shared.migrations import SCHEMA, VERSION_TABLE
from taskbell.shared.rows import Row
from taskbell.shared.rows.declaration import STORAGE
from taskbell.shared.schema import REVISIONS

Catalog = dict[str, list[tuple[Any, ...]]]

QUESTIONS = {
    "columns": """
        SELECT c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
               a.attidentity, pg_get_expr(d.adbin, d.adrelid), col_description(c.oid, a.attnum)
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
        WHERE c.relnamespace = 'taskbell'::regnamespace AND c.relkind = 'r' AND a.attnum > 0
        ORDER BY 1, 2""",
    "constraints": """
        SELECT c.relname, k.conname, k.contype, pg_get_constraintdef(k.oid)
        FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
        WHERE k.connamespace = 'taskbell'::regnamespace ORDER BY 1, 2""",
    "indexes": """
        SELECT tablename, indexname, indexdef FROM pg_indexes
        WHERE schemaname = 'taskbell' ORDER BY 1, 2""",
    "purposes": """
        SELECT relname, obj_description(oid, 'pg_class') FROM pg_class
        WHERE relnamespace = 'taskbell'::regnamespace AND relkind = 'r' ORDER BY 1""",
    "sequences": """
        SELECT sequencename, data_type::text, start_value, increment_by, cycle FROM pg_sequences
        WHERE schemaname = 'taskbell' ORDER BY 1""",
    "others": """
        SELECT relname, relkind FROM pg_class
        WHERE relnamespace = 'taskbell'::regnamespace AND relkind NOT IN ('r', 'i', 'S', 't')
        UNION ALL SELECT proname, 'f' FROM pg_proc WHERE pronamespace = 'taskbell'::regnamespace
        UNION ALL SELECT tgname, 't' FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
        WHERE c.relnamespace = 'taskbell'::regnamespace ORDER BY 1""",
    "storage": """
        SELECT relname, o.option_name, o.option_value::float8
        FROM pg_class, pg_options_to_table(reloptions) o
        WHERE relnamespace = 'taskbell'::regnamespace AND relkind = 'r' ORDER BY 1, 2""",
}


@pytest.fixture
def catalog(database_url: str) -> Catalog:
    """The catalog of the migrated database."""
    return read_catalog(database_url)


def read_catalog(url: str) -> Catalog:
    return {name: rows(url, question) for name, question in QUESTIONS.items()}


def create_from_rows(url: str) -> None:
    engine = create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(text(f"CREATE SCHEMA {SCHEMA}"))
        Row.metadata.create_all(connection)


def test_alembic_finds_no_difference_between_the_row_classes_and_the_schema(
    database_url: str,
) -> None:
    def ours(name: str | None, kind: str, _parents: object) -> bool:
        return kind != "schema" or name == SCHEMA

    options = {
        "compare_type": True,
        "compare_server_default": True,
        "include_schemas": True,
        "include_name": ours,
        "version_table": VERSION_TABLE,
        "version_table_schema": SCHEMA,
    }

    with create_engine(database_url, poolclass=NullPool).connect() as connection:
        context = MigrationContext.configure(connection, opts=options)
        differences: list[Any] = compare_metadata(context, Row.metadata)

    assert differences == []


@pytest.mark.parametrize("part", sorted(QUESTIONS.keys() - {"storage"}))
def test_the_row_classes_would_create_the_same(
    part: str, catalog: Catalog, empty_database_url: str
) -> None:
    create_from_rows(empty_database_url)

    migrated = [row for row in catalog[part] if row[0] != VERSION_TABLE]
    assert read_catalog(empty_database_url)[part] == migrated


def test_the_row_classes_name_the_same_storage_parameters(catalog: Catalog) -> None:
    declared = sorted(
        (table.name, name, float(value))
        for table in Row.metadata.tables.values()
        for name, value in table.info[STORAGE].items()
    )

    assert declared == catalog["storage"]


def test_the_script_for_dbas_gives_the_same_schema_and_revision(
    database_url: str, catalog: Catalog, empty_database_url: str
) -> None:
    url = empty_database_url
    with psycopg.connect(conninfo(url), autocommit=True) as connection:
        connection.execute(migration.sql().encode())

    assert read_catalog(url) == catalog
    revision = f"SELECT version_num FROM {SCHEMA}.{VERSION_TABLE}"
    assert rows(url, revision) == rows(database_url, revision)
    assert migration.check(url).answer == "current"


def test_no_index_of_task_names_status_for_then_no_claim_would_be_hot(catalog: Catalog) -> None:
    definitions = [definition for table, _, definition in catalog["indexes"] if table == "task"]

    assert definitions
    assert [one for one in definitions if re.search(r"\bstatus\b", one)] == []


def test_what_changes_in_a_task_is_contiguous_and_what_is_big_comes_last(catalog: Catalog) -> None:
    changing = ["status", "attempt_count", "refunded", "started_at", "finished_at"]
    changing += ["error_message", "result", "result_sealed", "result_location"]

    columns = [row[2] for row in catalog["columns"] if row[0] == "task"]

    start = columns.index("status")
    assert columns[start : start + len(changing)] == changing
    assert columns[-3:] == ["payload_location", "payload_sealed", "payload"]


def test_there_are_no_foreign_keys_for_they_cost_multixacts(catalog: Catalog) -> None:
    assert [row for row in catalog["constraints"] if row[2] == "f"] == []


def test_every_table_says_what_it_is_for(catalog: Catalog) -> None:
    assert [name for name, purpose in catalog["purposes"] if not purpose] == []


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("type", "''"),
        ("type", "repeat('x', 201)"),
        ("queue", "repeat('ü', 101)"),
        ("owner_id", "repeat('x', 201)"),
        ("correlation_id", "repeat('x', 201)"),
        ("partition_key", "repeat('x', 513)"),
        ("priority", "10"),
        ("max_attempts", "0"),
        ("refunded", "1"),
        ("status", "'DONE'"),
        ("status", "'COMPLETED'"),
        ("payload", "NULL"),
    ],
)
def test_a_task_out_of_bounds_is_refused_by_its_own_row(
    column: str, value: str, database_url: str
) -> None:
    row = {"id": "gen_random_uuid()", "type": "'t'", "queue": "'q'", "payload": "'{}'"}
    if column == "partition_key":
        row["partition_seq"] = "1"
    row[column] = value
    insert = f"INSERT INTO taskbell.task ({', '.join(row)}) SELECT {', '.join(row.values())}"

    with pytest.raises(psycopg.errors.CheckViolation):
        rows(database_url, insert)


def test_the_roles_know_the_revisions_that_the_migrations_bring() -> None:
    script = ScriptDirectory(migration.ENVIRONMENT, version_locations=migration.VERSIONS)

    assert tuple(step.revision for step in script.walk_revisions())[::-1] == REVISIONS
