-- Access: who may call the HTTP interface, how fast, and the keys that seal what they send.

CREATE TABLE taskbell.api_key (
    prefix       text        NOT NULL,
    key_hash     bytea       NOT NULL,
    owner_id     text        NOT NULL,
    label        text        NOT NULL DEFAULT '',
    scopes       text[]      NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at   timestamptz,
    last_used_at timestamptz,
    revoked_at   timestamptz,
    CONSTRAINT api_key_pkey PRIMARY KEY (prefix),
    CONSTRAINT api_key_prefix CHECK (octet_length(prefix) BETWEEN 1 AND 200),
    CONSTRAINT api_key_sha256 CHECK (octet_length(key_hash) = 32),
    CONSTRAINT api_key_owner_id CHECK (octet_length(owner_id) <= 200),
    CONSTRAINT api_key_scopes CHECK (scopes <@ ARRAY['submit','read','cancel','operate','admin'] AND cardinality(scopes) > 0)
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX api_key_sign_in ON taskbell.api_key (key_hash);
COMMENT ON TABLE taskbell.api_key IS 'Who may call the HTTP interface for which owner; the key itself is never stored.';
COMMENT ON COLUMN taskbell.api_key.prefix IS 'The first characters of the key, which may be shown: the name of the key.';
COMMENT ON COLUMN taskbell.api_key.key_hash IS 'SHA-256 of the whole key.';
COMMENT ON COLUMN taskbell.api_key.scopes IS 'What the key may do.';
COMMENT ON COLUMN taskbell.api_key.label IS 'What people call it.';

-- Limit and bucket in one narrow row, so that taking from it is one HOT update.
CREATE TABLE taskbell.rate_limit (
    scope       text             NOT NULL,
    name        text             NOT NULL,
    rate        double precision NOT NULL,
    burst       double precision NOT NULL,
    tokens      double precision NOT NULL,
    refilled_at timestamptz      NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT rate_limit_pkey PRIMARY KEY (scope, name),
    CONSTRAINT rate_limit_scope CHECK (scope IN ('owner','key')),
    CONSTRAINT rate_limit_name CHECK (octet_length(name) <= 200),
    CONSTRAINT rate_limit_rate CHECK (rate > 0 AND rate < 'Infinity'),
    CONSTRAINT rate_limit_burst CHECK (burst >= 1 AND burst < 'Infinity')
) WITH (fillfactor = 50);
COMMENT ON TABLE taskbell.rate_limit IS 'How many tasks a second an owner or an API key may submit; whoever has no row is not limited.';
COMMENT ON COLUMN taskbell.rate_limit.scope IS 'owner or key.';
COMMENT ON COLUMN taskbell.rate_limit.name IS 'The owner, or the prefix of the key.';
COMMENT ON COLUMN taskbell.rate_limit.rate IS 'Tokens a second.';
COMMENT ON COLUMN taskbell.rate_limit.burst IS 'Most tokens the bucket holds.';
COMMENT ON COLUMN taskbell.rate_limit.tokens IS 'How many there were at refilled_at.';

CREATE TABLE taskbell.data_key (
    key_id     text        NOT NULL,
    owner_id   text        NOT NULL,
    wrapped    bytea,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    erased_at  timestamptz,
    CONSTRAINT data_key_pkey PRIMARY KEY (key_id),
    CONSTRAINT data_key_key_id CHECK (octet_length(key_id) BETWEEN 1 AND 32),
    CONSTRAINT data_key_owner_id CHECK (octet_length(owner_id) BETWEEN 1 AND 200),
    CONSTRAINT data_key_erased CHECK ((wrapped IS NULL) = (erased_at IS NOT NULL))
);
CREATE UNIQUE INDEX data_key_owner ON taskbell.data_key (owner_id) WHERE erased_at IS NULL;
COMMENT ON TABLE taskbell.data_key IS 'Keys of single owners, wrapped by the key ring; erasing one makes all it sealed unreadable.';
COMMENT ON COLUMN taskbell.data_key.wrapped IS 'The key, sealed by a key of the ring; gone once erased.';

CREATE TABLE taskbell.secret (
    name  text  NOT NULL,
    value bytea NOT NULL,
    CONSTRAINT secret_pkey PRIMARY KEY (name)
);
COMMENT ON TABLE taskbell.secret IS 'Random values that all replicas of the HTTP interface share.';
INSERT INTO taskbell.secret (name, value)
VALUES ('cursor', decode(replace(CAST(gen_random_uuid() AS text) || CAST(gen_random_uuid() AS text), '-', ''), 'hex'));
