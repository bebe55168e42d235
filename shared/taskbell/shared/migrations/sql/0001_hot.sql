-- State is a table: a live task has exactly one row in one of the first two.

CREATE SEQUENCE taskbell.partition_seq AS bigint;
COMMENT ON SEQUENCE taskbell.partition_seq IS 'Places in the lines of all partitions; only tasks with a partition key draw one.';

CREATE TABLE taskbell.outbox (
    task_id       uuid        NOT NULL,
    publish_at    timestamptz NOT NULL,
    announced_at  timestamptz,
    partition_seq bigint,
    priority      smallint    NOT NULL,
    parked        boolean     NOT NULL DEFAULT false,
    queue         text        NOT NULL,
    partition_key text,
    CONSTRAINT outbox_pkey PRIMARY KEY (task_id),
    CONSTRAINT outbox_parked CHECK (NOT parked OR partition_key IS NOT NULL)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 50000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 20000);
CREATE INDEX outbox_due  ON taskbell.outbox (queue, priority DESC, publish_at) WHERE NOT parked;
CREATE INDEX outbox_line ON taskbell.outbox (queue, partition_key, partition_seq) WHERE parked;
CREATE INDEX outbox_line_new ON taskbell.outbox (partition_seq) WHERE parked;
CREATE INDEX outbox_head ON taskbell.outbox (queue, partition_key) WHERE partition_key IS NOT NULL AND NOT parked;
COMMENT ON TABLE taskbell.outbox IS 'Tasks that wait: someone must be woken for each, not before publish_at; an entry lives until the claim.';
COMMENT ON COLUMN taskbell.outbox.publish_at IS 'When the task is due.';
COMMENT ON COLUMN taskbell.outbox.announced_at IS 'The mark: when the entry was last announced; a mark expires, for an announcement may be lost.';
COMMENT ON COLUMN taskbell.outbox.partition_seq IS 'The place in the line of its partition.';
COMMENT ON COLUMN taskbell.outbox.parked IS 'Waits behind the head of its partition; promotion makes it the head.';

CREATE TABLE taskbell.lease (
    task_id          uuid        NOT NULL,
    expires_at       timestamptz NOT NULL,
    attempt          integer     NOT NULL,
    cancel_requested boolean     NOT NULL DEFAULT false,
    progress         jsonb,
    queue            text        NOT NULL,
    worker_id        text        NOT NULL,
    partition_key    text,
    CONSTRAINT lease_pkey PRIMARY KEY (task_id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 20000);
CREATE UNIQUE INDEX lease_partition ON taskbell.lease (queue, partition_key) WHERE partition_key IS NOT NULL;
-- Empty unless somebody cancels: a worker looks here more often than it beats.
CREATE INDEX lease_cancel ON taskbell.lease (worker_id) WHERE cancel_requested;
COMMENT ON TABLE taskbell.lease IS 'Tasks that run: each row is the right to run one attempt until expires_at.';
COMMENT ON COLUMN taskbell.lease.expires_at IS 'From then on the reaper may take the task back; heartbeats move it. No index, so that they stay HOT.';
COMMENT ON COLUMN taskbell.lease.attempt IS 'With worker_id the fence: every write after the claim names both.';
COMMENT ON COLUMN taskbell.lease.cancel_requested IS 'Someone asked to cancel; the holder looks for it twice a second.';
COMMENT ON COLUMN taskbell.lease.progress IS 'What the handler last said about how far it is; small, replaced as a whole, gone with the lease.';
COMMENT ON COLUMN taskbell.lease.worker_id IS 'The holder, with its random boot id.';
COMMENT ON COLUMN taskbell.lease.partition_key IS 'Unique within the queue: one task of a partition runs at a time.';

CREATE TABLE taskbell.held_partition (
    queue         text        NOT NULL,
    partition_key text        NOT NULL,
    task_id       uuid        NOT NULL,
    held_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT held_partition_pkey PRIMARY KEY (queue, partition_key)
);
CREATE UNIQUE INDEX held_partition_head ON taskbell.held_partition (task_id);
COMMENT ON TABLE taskbell.held_partition IS 'Partitions of queues on hold whose head failed or was cancelled: nothing of them is promoted until the hold is lifted.';
COMMENT ON COLUMN taskbell.held_partition.task_id IS 'The head that ended so; redriving or discarding it lifts the hold.';
