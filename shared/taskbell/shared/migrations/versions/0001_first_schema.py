"""The first schema: everything taskbell keeps.

Revision ID: 0001
Revises: nothing
"""

from alembic import op

from taskbell.shared.migrations.script import statements

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    for part in ("record", "hot", "around", "access"):
        for statement in statements(f"0001_{part}.sql"):
            op.execute(statement)


def downgrade() -> None:
    raise NotImplementedError("taskbell's schema only goes forward; drop the schema to remove it")
