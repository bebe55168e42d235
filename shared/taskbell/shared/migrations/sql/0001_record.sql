-- The record: what a task is, what became of it, and what may be asked about it later.

-- The column order is a rule: what changes sits together, what is big and never changes sits last.
-- An update then writes only the middle of the row to the WAL. No index may name status.
CREATE TABLE taskbell.task (
    id               uuid        NOT NULL,
    owner_id         text        NOT NULL DEFAULT '',
    type             text        NOT NULL,
    queue            text        NOT NULL,
    partition_key    text,
    partition_seq    bigint,
    correlation_id   text,
    traceparent      text,
    created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    scheduled_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    max_attempts     smallint    NOT NULL DEFAULT 5,
    priority         smallint    NOT NULL DEFAULT 5,
    status           text        NOT NULL DEFAULT 'PENDING',
    attempt_count    integer     NOT NULL DEFAULT 0,
    refunded         integer     NOT NULL DEFAULT 0,
    started_at       timestamptz,
    finished_at      timestamptz,
    error_message    text,
    result           jsonb,
    result_sealed    bytea,
    result_location  text,
    idempotency_hash bytea,
    payload_location text,
    payload_sealed   bytea,
    payload          jsonb,
    CONSTRAINT task_pkey PRIMARY KEY (id),
    CONSTRAINT task_status CHECK (status IN ('PENDING','IN_PROGRESS','RETRYING','COMPLETED','FAILED','CANCELLED')),
    CONSTRAINT task_finished CHECK ((finished_at IS NOT NULL) = (status IN ('COMPLETED','FAILED','CANCELLED'))),
    CONSTRAINT task_priority CHECK (priority BETWEEN 0 AND 9),
    CONSTRAINT task_attempts CHECK (max_attempts BETWEEN 1 AND 1000 AND refunded BETWEEN 0 AND attempt_count),
    CONSTRAINT task_one_payload CHECK (num_nonnulls(payload, payload_sealed, payload_location) = 1),
    CONSTRAINT task_partition CHECK ((partition_key IS NULL) = (partition_seq IS NULL)),
    CONSTRAINT task_type CHECK (octet_length(type) BETWEEN 1 AND 200),
    CONSTRAINT task_queue CHECK (octet_length(queue) BETWEEN 1 AND 200),
    CONSTRAINT task_owner_id CHECK (octet_length(owner_id) <= 200),
    CONSTRAINT task_partition_key CHECK (octet_length(partition_key) BETWEEN 1 AND 512),
    CONSTRAINT task_correlation_id CHECK (octet_length(correlation_id) <= 200)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 10000,
        autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_vacuum_insert_threshold = 50000,
        autovacuum_analyze_scale_factor = 0.02, autovacuum_analyze_threshold = 10000);
-- For lists; they name only what never changes, so that claims and settlements stay HOT.
CREATE INDEX task_owner ON taskbell.task (owner_id, id) WHERE owner_id <> '';
CREATE INDEX task_correlation ON taskbell.task (correlation_id, id) WHERE correlation_id IS NOT NULL;
CREATE INDEX task_owner_correlation ON taskbell.task ((ARRAY[owner_id, correlation_id]), id)
    WHERE owner_id <> '' AND correlation_id IS NOT NULL;
COMMENT ON TABLE taskbell.task IS 'The record of every task: one unit of work, one row, from enqueue to prune.';
COMMENT ON COLUMN taskbell.task.id IS 'UUIDv7 minted by the producer, so that id order is time order.';
COMMENT ON COLUMN taskbell.task.owner_id IS 'Whose task it is: the isolation boundary.';
COMMENT ON COLUMN taskbell.task.type IS 'The stable name that picks the handler.';
COMMENT ON COLUMN taskbell.task.queue IS 'The named lane the task waits in.';
COMMENT ON COLUMN taskbell.task.partition_key IS 'Tasks of a queue that share it run one at a time, in creation order.';
COMMENT ON COLUMN taskbell.task.partition_seq IS 'The place in the line of its partition, drawn when the task was enqueued.';
COMMENT ON COLUMN taskbell.task.correlation_id IS 'The caller''s own name for what this task belongs to.';
COMMENT ON COLUMN taskbell.task.traceparent IS 'W3C trace context of the enqueue, to link the spans of send and process.';
COMMENT ON COLUMN taskbell.task.scheduled_at IS 'Not before this instant; kept for the record, outbox.publish_at decides.';
COMMENT ON COLUMN taskbell.task.max_attempts IS 'How many tries the task has before it fails.';
COMMENT ON COLUMN taskbell.task.priority IS '0 to 9, 9 is served first.';
COMMENT ON COLUMN taskbell.task.status IS 'The user''s word for where the task is; no index may name it, or no claim is HOT any more.';
COMMENT ON COLUMN taskbell.task.attempt_count IS 'Number of claims so far; never decreases, part of the fence.';
COMMENT ON COLUMN taskbell.task.refunded IS 'What release, RetryLater and redrive gave back; tries used = attempt_count - refunded.';
COMMENT ON COLUMN taskbell.task.started_at IS 'When the first attempt was claimed.';
COMMENT ON COLUMN taskbell.task.finished_at IS 'When the task reached a final status; set exactly then.';
COMMENT ON COLUMN taskbell.task.error_message IS 'The error of the latest failed attempt; none once the task is completed.';
COMMENT ON COLUMN taskbell.task.result IS 'What the handler returned, when it is kept in the clear and in the row.';
COMMENT ON COLUMN taskbell.task.result_sealed IS 'What the handler returned, encrypted.';
COMMENT ON COLUMN taskbell.task.result_location IS 'Where in the object storage the result is.';
COMMENT ON COLUMN taskbell.task.idempotency_hash IS 'The hash of the idempotency key, to find its row when the task is pruned.';
COMMENT ON COLUMN taskbell.task.payload_location IS 'Where in the object storage the payload is.';
COMMENT ON COLUMN taskbell.task.payload_sealed IS 'The payload, encrypted.';
COMMENT ON COLUMN taskbell.task.payload IS 'The payload, when it is kept in the clear and in the row; big and never changed, hence last.';

CREATE TABLE taskbell.idempotency (
    owner_id     text  NOT NULL,
    key_hash     bytea NOT NULL,
    task_id      uuid  NOT NULL,
    request_hash bytea NOT NULL,
    CONSTRAINT idempotency_pkey PRIMARY KEY (owner_id, key_hash)
);
COMMENT ON TABLE taskbell.idempotency IS 'The same (owner, key) gives the same task; lives exactly as long as its task.';
COMMENT ON COLUMN taskbell.idempotency.key_hash IS 'Hash of the idempotency key, so that a key of any length fits the index.';
COMMENT ON COLUMN taskbell.idempotency.request_hash IS 'Hash of what the caller asked for, to refuse the same key with another request.';

-- Alone in a business database, and there already if the rest comes later.
CREATE TABLE IF NOT EXISTS taskbell.effect (
    scope      text        NOT NULL,
    dedup_key  text        NOT NULL,
    task_id    uuid        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT effect_pkey PRIMARY KEY (scope, dedup_key),
    CONSTRAINT effect_scope CHECK (octet_length(scope) BETWEEN 1 AND 200),
    CONSTRAINT effect_dedup_key CHECK (octet_length(dedup_key) BETWEEN 1 AND 1024)
);
CREATE INDEX IF NOT EXISTS effect_age ON taskbell.effect USING brin (created_at);
COMMENT ON TABLE taskbell.effect IS 'Dedup keys, each recorded in the same transaction as its effect; may stand alone in another database.';
COMMENT ON COLUMN taskbell.effect.scope IS 'What the key is unique within, the task type by default.';
COMMENT ON COLUMN taskbell.effect.dedup_key IS 'A key seen before ends the handler as completed, with no second effect.';

CREATE TABLE taskbell.dead_letter (
    task_id       uuid        NOT NULL,
    failed_at     timestamptz NOT NULL,
    attempt_count integer     NOT NULL,
    owner_id      text        NOT NULL,
    queue         text        NOT NULL,
    type          text        NOT NULL,
    partition_key text,
    error_class   text,
    fingerprint   text,
    last_error    text,
    worker_id     text,
    CONSTRAINT dead_letter_pkey PRIMARY KEY (task_id)
);
CREATE INDEX dead_letter_owner ON taskbell.dead_letter (owner_id, failed_at, task_id);
CREATE INDEX dead_letter_newest ON taskbell.dead_letter (failed_at, task_id);
CREATE INDEX dead_letter_cause ON taskbell.dead_letter (fingerprint, failed_at, task_id);
COMMENT ON TABLE taskbell.dead_letter IS 'The diagnosis of every FAILED task, until it is redriven or discarded.';
COMMENT ON COLUMN taskbell.dead_letter.error_class IS 'The class of the last error, to redrive by cause.';
COMMENT ON COLUMN taskbell.dead_letter.fingerprint IS 'Equal for errors with the same cause, to group dead letters.';
COMMENT ON COLUMN taskbell.dead_letter.worker_id IS 'Who held the last attempt.';

CREATE TABLE taskbell.failure (
    task_id     uuid        NOT NULL,
    attempt     integer     NOT NULL,
    failed_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    outcome     text        NOT NULL,
    worker_id   text,
    error_class text,
    error       text,
    traceback   text,
    CONSTRAINT failure_pkey PRIMARY KEY (task_id, attempt)
);
COMMENT ON TABLE taskbell.failure IS 'One row per failed attempt; successes write none.';
COMMENT ON COLUMN taskbell.failure.outcome IS 'retry and fail come from the handler, lost from the reaper.';
COMMENT ON COLUMN taskbell.failure.traceback IS 'Bounded by the one who writes it.';
