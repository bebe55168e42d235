-- Around the core: what steers, wakes, measures and watches the tasks.

-- The upper columns are an operator's, the lower ones are measured and change together.
CREATE TABLE taskbell.queue (
    name               text    NOT NULL,
    paused             boolean NOT NULL DEFAULT false,
    paused_until       timestamptz,
    max_depth          bigint,
    max_running        integer,
    rate_limit         double precision,
    rate_burst         integer,
    on_dead            text    NOT NULL DEFAULT 'continue',
    depth              bigint,
    oldest_age         double precision,
    drain_rate         double precision,
    settled            bigint  NOT NULL DEFAULT 0,
    measured_settled   bigint  NOT NULL DEFAULT 0,
    measured_at        timestamptz,
    CONSTRAINT queue_pkey PRIMARY KEY (name),
    CONSTRAINT queue_name CHECK (octet_length(name) BETWEEN 1 AND 200),
    CONSTRAINT queue_paused_until CHECK (isfinite(paused_until)),
    CONSTRAINT queue_limits CHECK (max_depth >= 0 AND max_running >= 0),
    CONSTRAINT queue_rate CHECK (rate_limit > 0 AND rate_limit < 'Infinity' AND rate_burst >= 1),
    CONSTRAINT queue_on_dead CHECK (on_dead IN ('continue','hold')),
    CONSTRAINT queue_measured CHECK (depth >= 0 AND oldest_age >= 0 AND settled >= 0)
) WITH (fillfactor = 50);
CREATE INDEX queue_paused ON taskbell.queue (name) WHERE paused OR paused_until IS NOT NULL;
COMMENT ON TABLE taskbell.queue IS 'What an operator decided about a queue, and what was last measured; a queue without a row is unlimited.';
COMMENT ON COLUMN taskbell.queue.paused IS 'Nothing of this queue is claimed until someone resumes it.';
COMMENT ON COLUMN taskbell.queue.paused_until IS 'Nothing of this queue is claimed before this instant.';
COMMENT ON COLUMN taskbell.queue.max_depth IS 'Admission refuses new tasks while depth is this large; none means no limit.';
COMMENT ON COLUMN taskbell.queue.max_running IS 'How many leases of this queue may live at once; none means no limit.';
COMMENT ON COLUMN taskbell.queue.rate_limit IS 'Claims per second on average; none means no limit.';
COMMENT ON COLUMN taskbell.queue.rate_burst IS 'Claims that may be made at once after a quiet time.';
COMMENT ON COLUMN taskbell.queue.on_dead IS 'Whether a partition goes on after one of its tasks failed, or holds until its dead letter is redriven or discarded.';
COMMENT ON COLUMN taskbell.queue.depth IS 'Measured number of entries that are due.';
COMMENT ON COLUMN taskbell.queue.oldest_age IS 'Measured age of the oldest due entry, in seconds.';
COMMENT ON COLUMN taskbell.queue.drain_rate IS 'Measured settlements per second; Retry-After is computed from it.';
COMMENT ON COLUMN taskbell.queue.settled IS 'Running total of settlements, from which drain_rate is measured.';
COMMENT ON COLUMN taskbell.queue.measured_settled IS 'What settled was at measured_at.';
COMMENT ON COLUMN taskbell.queue.measured_at IS 'When the measured columns were last written.';

CREATE TABLE taskbell.bell (
    listener_id  text        NOT NULL,
    awake_until  timestamptz NOT NULL,
    listen_until timestamptz NOT NULL,
    CONSTRAINT bell_pkey PRIMARY KEY (listener_id)
) WITH (fillfactor = 50);
COMMENT ON TABLE taskbell.bell IS 'One row per listener of the doorbell: a statement rings only if one listens and none is awake.';
COMMENT ON COLUMN taskbell.bell.awake_until IS 'A promise: I make passes until then, nobody need ring.';
COMMENT ON COLUMN taskbell.bell.listen_until IS 'After this instant the listener counts as gone.';

CREATE TABLE taskbell.schedule (
    name           text        NOT NULL,
    type           text        NOT NULL,
    queue          text        NOT NULL,
    owner_id       text        NOT NULL DEFAULT '',
    cron           text        NOT NULL,
    time_zone      text        NOT NULL DEFAULT 'UTC',
    catch_up       text        NOT NULL DEFAULT 'one',
    catch_up_limit integer     NOT NULL DEFAULT 100,
    partition_key  text,
    priority       smallint    NOT NULL DEFAULT 5,
    max_attempts   smallint    NOT NULL DEFAULT 5,
    enabled        boolean     NOT NULL DEFAULT true,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_slot      timestamptz,
    next_slot      timestamptz,
    payload        jsonb       NOT NULL DEFAULT '{}',
    CONSTRAINT schedule_pkey PRIMARY KEY (name),
    CONSTRAINT schedule_name CHECK (octet_length(name) BETWEEN 1 AND 200),
    CONSTRAINT schedule_type CHECK (octet_length(type) BETWEEN 1 AND 200),
    CONSTRAINT schedule_queue CHECK (octet_length(queue) BETWEEN 1 AND 200),
    CONSTRAINT schedule_owner_id CHECK (octet_length(owner_id) <= 200),
    CONSTRAINT schedule_partition_key CHECK (octet_length(partition_key) BETWEEN 1 AND 512),
    CONSTRAINT schedule_priority CHECK (priority BETWEEN 0 AND 9),
    CONSTRAINT schedule_attempts CHECK (max_attempts BETWEEN 1 AND 1000),
    CONSTRAINT schedule_catch_up CHECK (catch_up IN ('skip','one','all') AND catch_up_limit >= 1),
    CONSTRAINT schedule_slots CHECK (last_slot < next_slot)
) WITH (fillfactor = 50);
COMMENT ON TABLE taskbell.schedule IS 'Tasks that come round by the clock; each slot is enqueued at most once.';
COMMENT ON COLUMN taskbell.schedule.cron IS 'When, in cron notation, read in time_zone.';
COMMENT ON COLUMN taskbell.schedule.time_zone IS 'IANA name of the zone whose clock on the wall counts.';
COMMENT ON COLUMN taskbell.schedule.catch_up IS 'What becomes of slots that were missed: none is enqueued, the latest one, or all up to catch_up_limit.';
COMMENT ON COLUMN taskbell.schedule.catch_up_limit IS 'How many missed slots are enqueued at most when catch_up is all.';
COMMENT ON COLUMN taskbell.schedule.last_slot IS 'The latest slot that was dealt with.';
COMMENT ON COLUMN taskbell.schedule.next_slot IS 'The earliest slot not yet dealt with; none until the schedule was first looked at.';
COMMENT ON COLUMN taskbell.schedule.payload IS 'The payload of every task of this schedule.';

CREATE TABLE taskbell.worker (
    worker_id  text        NOT NULL,
    role       text        NOT NULL,
    host       text        NOT NULL,
    pid        integer     NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    running    integer     NOT NULL DEFAULT 0,
    slots      integer     NOT NULL DEFAULT 0,
    queues     text[]      NOT NULL DEFAULT '{}',
    CONSTRAINT worker_pkey PRIMARY KEY (worker_id)
) WITH (fillfactor = 50);
COMMENT ON TABLE taskbell.worker IS 'The processes that said they are there: information only, nothing is decided from it.';
COMMENT ON COLUMN taskbell.worker.worker_id IS 'The name in the leases, with its random boot id.';
COMMENT ON COLUMN taskbell.worker.role IS 'relay, consumer or api.';
COMMENT ON COLUMN taskbell.worker.seen_at IS 'When the process last wrote this row.';
COMMENT ON COLUMN taskbell.worker.running IS 'How many of its slots ran a handler at seen_at.';
COMMENT ON COLUMN taskbell.worker.slots IS 'How many handlers the process runs at once.';

CREATE TABLE taskbell.audit_log (
    id      bigint      GENERATED ALWAYS AS IDENTITY,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor   text        NOT NULL,
    action  text        NOT NULL,
    subject text        NOT NULL,
    detail  jsonb       NOT NULL DEFAULT '{}',
    CONSTRAINT audit_log_pkey PRIMARY KEY (id)
);
COMMENT ON TABLE taskbell.audit_log IS 'What operators did, by whom and to what; only ever appended to.';
COMMENT ON COLUMN taskbell.audit_log.actor IS 'The prefix of an API key, the subject of a token, or a user at a command line.';
COMMENT ON COLUMN taskbell.audit_log.action IS 'The verb: cancel, redrive, discard, pause and so on.';
COMMENT ON COLUMN taskbell.audit_log.subject IS 'The task, queue, schedule or key it was done to.';
COMMENT ON COLUMN taskbell.audit_log.detail IS 'The arguments, without payloads or secrets.';

CREATE TABLE taskbell.duty (
    name   text        NOT NULL,
    ran_at timestamptz NOT NULL,
    CONSTRAINT duty_pkey PRIMARY KEY (name)
) WITH (fillfactor = 50);
COMMENT ON TABLE taskbell.duty IS 'When each maintenance duty last ran, so that a whole fleet shares one pace.';

COMMENT ON TABLE taskbell.schema_version IS 'The revision of this schema; written by taskbell migrate.';
