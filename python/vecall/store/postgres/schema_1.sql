-- Schema 1 of vecall in PostgreSQL 15 or later. `vecall pg migrate` runs it as the owner.
-- Columns are those of the file (docs/reference/file-format.md), with these differences:
-- part.head and chg.head are random bits of a change; part.sweep_until and vec_next.until
-- are leases. The file has none of them.
CREATE TABLE meta (key text COLLATE "C" PRIMARY KEY, value text NOT NULL);
CREATE TABLE model (
  id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, dim int NOT NULL,
  fingerprint bytea,
  state text NOT NULL CHECK (state IN ('active', 'migrating', 'retired'))
);
CREATE UNIQUE INDEX model_active ON model (state) WHERE state = 'active';
CREATE UNIQUE INDEX model_migrating ON model (state) WHERE state = 'migrating';
-- A sequence never goes back, so no number is used twice. 2^31 - 1 users.
CREATE SEQUENCE part_id AS int;
CREATE TABLE part (
  id bigint PRIMARY KEY DEFAULT nextval('part_id'), app text COLLATE "C" NOT NULL,
  "user" text COLLATE "C" NOT NULL, seq bigint NOT NULL DEFAULT 0,
  head bigint NOT NULL DEFAULT 0, live bigint NOT NULL DEFAULT 0,
  bytes bigint NOT NULL DEFAULT 0, created_at float8 NOT NULL, snap bytea, crc bigint,
  item text, sweep_until float8, -- when another server may remove its expired data
  UNIQUE (app, "user")
) WITH (fillfactor = 50);
-- What a use changes stands together, so that its WAL record has these bytes alone,
-- without text and vector, if the new version of the row is on the same page.
CREATE TABLE mem (
  rid bigint PRIMARY KEY, part bigint NOT NULL, seq bigint NOT NULL, crc bigint NOT NULL,
  uses bigint, last_used float8, created_at float8 NOT NULL, updated_at float8 NOT NULL,
  pos float8, ts float8, expires_at float8, valid_until float8, importance_prior float8,
  model int, state text NOT NULL DEFAULT 'live'
    CHECK (state IN ('live', 'archived', 'quarantined')),
  id text COLLATE "C" NOT NULL, session text COLLATE "C", event text,
  author text COLLATE "C", kind text COLLATE "C", source text COLLATE "C",
  trust text COLLATE "C", text text COLLATE "C" NOT NULL, content text COLLATE "C",
  meta text COLLATE "C", supersedes text COLLATE "C", hash bytea NOT NULL, vec bytea,
  UNIQUE (part, id)
) WITH (fillfactor = 75);
ALTER TABLE mem ALTER vec SET STORAGE EXTERNAL; -- floats do not compress
CREATE INDEX mem_session ON mem (part, session, pos);
CREATE INDEX mem_expires ON mem (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX mem_valid ON mem (valid_until)
  WHERE state = 'live' AND valid_until IS NOT NULL;
CREATE INDEX mem_bare ON mem (rid) WHERE vec IS NULL;
CREATE INDEX mem_hash ON mem (part, hash);
CREATE TABLE vec_next (
  rid bigint PRIMARY KEY, model int NOT NULL, vec bytea NOT NULL, crc bigint,
  until float8 -- when another server may embed the row
);
CREATE INDEX vec_todo ON vec_next (rid) WHERE vec = ''::bytea;
CREATE TABLE chg (
  part bigint NOT NULL, seq bigint NOT NULL, rid bigint NOT NULL,
  op text COLLATE "C" NOT NULL,
  head bigint NOT NULL DEFAULT nullif(current_setting('vecall.head', true), '')::bigint,
  PRIMARY KEY (part, seq)
);
CREATE TABLE tomb (
  part bigint NOT NULL, id text COLLATE "C" NOT NULL, at float8 NOT NULL, why text,
  PRIMARY KEY (part, id)
);
CREATE TABLE hist (
  part bigint NOT NULL, id text COLLATE "C" NOT NULL, seq bigint NOT NULL,
  at float8 NOT NULL, op text NOT NULL, old text COLLATE "C", expires_at float8,
  PRIMARY KEY (part, id, seq)
);
CREATE INDEX hist_expires ON hist (expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE idem (
  part bigint NOT NULL, key text COLLATE "C" NOT NULL, at float8 NOT NULL, hash bytea,
  ids text, PRIMARY KEY (part, key)
);
CREATE TABLE trig (
  part bigint NOT NULL, session text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL, due_at float8, state text,
  PRIMARY KEY (part, session, kind)
);
CREATE INDEX trig_due ON trig (due_at) WHERE due_at IS NOT NULL;
CREATE TABLE replaced (
  part bigint NOT NULL, id text COLLATE "C" NOT NULL, by text COLLATE "C",
  why text NOT NULL, at float8 NOT NULL, PRIMARY KEY (part, id)
);
CREATE INDEX replaced_by ON replaced (part, by) WHERE by IS NOT NULL;
CREATE TABLE told (
  part bigint NOT NULL, session text COLLATE "C" NOT NULL, id text COLLATE "C" NOT NULL,
  at float8 NOT NULL, pos bigint, event text, PRIMARY KEY (part, session, id)
);
CREATE TABLE item (
  rid bigint PRIMARY KEY, part bigint NOT NULL, ns text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL, value text COLLATE "C" NOT NULL,
  created_at float8 NOT NULL, updated_at float8 NOT NULL, ttl float8,
  expires_at float8, vecs bytea, crc bigint NOT NULL, UNIQUE (part, ns, key)
);
ALTER TABLE item ALTER vecs SET STORAGE EXTERNAL; -- floats do not compress
CREATE INDEX item_ends ON item (expires_at) WHERE expires_at IS NOT NULL;
-- A cache that all servers share. It is not in the WAL, in backups or on replicas, and
-- is empty after a crash.
CREATE UNLOGGED TABLE snap (
  part bigint NOT NULL, n int NOT NULL, data bytea NOT NULL, PRIMARY KEY (part, n)
);
ALTER TABLE snap ALTER data SET STORAGE EXTERNAL;
