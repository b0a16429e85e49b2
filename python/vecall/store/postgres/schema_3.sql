-- Schema 3: counters, as in the file (docs/reference/file-format.md). Triggers count, so
-- what servers of schema 2 write is counted, too. All rows of a user change under the
-- lock of the user's row in `part`. The rows of an app in `fig` are sums over its users:
-- a transaction inserts its difference, so it waits for no other user's. Now and then
-- one adds some of them up.
ALTER TABLE part
  ADD n bigint NOT NULL DEFAULT 0, ADD aged bigint NOT NULL DEFAULT 0,
  ADD held bigint NOT NULL DEFAULT 0, ADD bare bigint NOT NULL DEFAULT 0,
  ADD ses bigint NOT NULL DEFAULT 0, ADD docs bigint NOT NULL DEFAULT 0,
  ADD gone bigint NOT NULL DEFAULT 0, ADD lo float8 NOT NULL DEFAULT 9e99,
  ADD lo_x float8 NOT NULL DEFAULT 9e99, ADD hi float8 NOT NULL DEFAULT -9e99,
  ADD hi_x float8 NOT NULL DEFAULT -9e99;
CREATE INDEX part_age ON part (app, created_at);
CREATE INDEX told_wait ON told (part) WHERE event IS NOT NULL;
CREATE TABLE fig (
  part bigint NOT NULL, name text COLLATE "C" NOT NULL, slot bigint NOT NULL DEFAULT 0,
  n bigint NOT NULL DEFAULT 0, live bigint NOT NULL DEFAULT 0,
  bytes bigint NOT NULL DEFAULT 0, lo float8 NOT NULL DEFAULT 9e99,
  lo_x float8 NOT NULL DEFAULT 9e99, hi float8 NOT NULL DEFAULT -9e99,
  hi_x float8 NOT NULL DEFAULT -9e99, parts bigint NOT NULL DEFAULT 0,
  users bigint NOT NULL DEFAULT 0, aged bigint NOT NULL DEFAULT 0,
  held bigint NOT NULL DEFAULT 0, bare bigint NOT NULL DEFAULT 0,
  ses bigint NOT NULL DEFAULT 0, docs bigint NOT NULL DEFAULT 0,
  gone bigint NOT NULL DEFAULT 0, PRIMARY KEY (part, name, slot)
) WITH (fillfactor = 75);
CREATE SEQUENCE fig_slot;

-- The bytes of a text in UTF-8; two of its characters are stored as two each.
CREATE FUNCTION text_size(of_text text) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT octet_length(replace(replace(of_text, chr(1) || chr(2), '0'),
    chr(1) || chr(3), '1'))::bigint
$$;

CREATE FUNCTION count_added() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
  WITH said AS (
    INSERT INTO fig AS f (part, name, n, live, bytes, lo, hi)
    SELECT part, session, count(*), count(*) FILTER (WHERE state = 'live'),
      coalesce(sum(text_size(text)) FILTER (WHERE state = 'live'), 0),
      min(coalesce(ts, created_at)), max(coalesce(ts, created_at))
    FROM added WHERE session IS NOT NULL GROUP BY part, session
    ON CONFLICT (part, name, slot) DO UPDATE SET n = f.n + excluded.n,
      live = f.live + excluded.live, bytes = f.bytes + excluded.bytes,
      lo = least(f.lo, excluded.lo), hi = greatest(f.hi, excluded.hi)
    RETURNING f.part, xmax = 0 AS is_new
  )
  UPDATE part AS p SET n = p.n + a.n, aged = p.aged + a.aged, held = p.held + a.held,
    bare = p.bare + a.bare, ses = p.ses + (
      SELECT count(*) FROM said WHERE said.part = p.id AND is_new
    ), lo = least(p.lo, a.lo), hi = greatest(p.hi, a.hi)
  FROM (
    SELECT part, count(*) AS n, count(*) FILTER (WHERE state = 'archived') AS aged,
      count(*) FILTER (WHERE state = 'quarantined') AS held,
      count(*) FILTER (WHERE vec IS NULL) AS bare, min(created_at) AS lo,
      max(updated_at) AS hi FROM added GROUP BY part
  ) AS a WHERE p.id = a.part;
  RETURN NULL;
END $$;

CREATE FUNCTION count_removed() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
  WITH said AS (
    UPDATE fig AS f SET n = f.n - r.n, live = f.live - r.live,
      bytes = f.bytes - r.bytes, lo_x = least(f.lo_x, r.lo),
      hi_x = greatest(f.hi_x, r.hi)
    FROM (
      SELECT part, session, count(*) AS n,
        count(*) FILTER (WHERE state = 'live') AS live,
        coalesce(sum(text_size(text)) FILTER (WHERE state = 'live'), 0) AS bytes,
        min(coalesce(ts, created_at)) AS lo, max(coalesce(ts, created_at)) AS hi
      FROM removed WHERE session IS NOT NULL GROUP BY part, session
    ) AS r WHERE f.part = r.part AND f.name = r.session AND f.slot = 0
    RETURNING f.part, f.n
  )
  UPDATE part AS p SET n = p.n - a.n, aged = p.aged - a.aged, held = p.held - a.held,
    bare = p.bare - a.bare, ses = p.ses - (
      SELECT count(*) FROM said WHERE said.part = p.id AND said.n = 0
    ), lo = CASE WHEN p.n = a.n THEN 9e99 ELSE p.lo END,
    lo_x = CASE WHEN p.n = a.n THEN 9e99 ELSE least(p.lo_x, a.lo) END,
    hi = CASE WHEN p.n = a.n THEN -9e99 ELSE p.hi END,
    hi_x = CASE WHEN p.n = a.n THEN -9e99 ELSE greatest(p.hi_x, a.hi) END
  FROM (
    SELECT part, count(*) AS n, count(*) FILTER (WHERE state = 'archived') AS aged,
      count(*) FILTER (WHERE state = 'quarantined') AS held,
      count(*) FILTER (WHERE vec IS NULL) AS bare, min(created_at) AS lo,
      max(updated_at) AS hi FROM removed GROUP BY part
  ) AS a WHERE p.id = a.part;
  DELETE FROM fig AS f USING removed AS r
    WHERE f.part = r.part AND f.name = r.session AND f.slot = 0 AND f.n = 0;
  -- The times of a small user are read again, if one was of a deleted memory.
  UPDATE part AS p SET lo_x = 9e99, hi_x = -9e99,
    lo = (SELECT min(created_at) FROM mem WHERE mem.part = p.id),
    hi = (SELECT max(updated_at) FROM mem WHERE mem.part = p.id)
    WHERE p.id IN (SELECT part FROM removed) AND p.n BETWEEN 1 AND 512
    AND (p.lo >= p.lo_x OR p.hi <= p.hi_x);
  RETURN NULL;
END $$;

CREATE FUNCTION count_changed() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
  was float8 := coalesce(old.ts, old.created_at);
  said float8 := coalesce(new.ts, new.created_at);
  was_live int := (old.state = 'live')::int;
  is_live int := (new.state = 'live')::int;
  sessions int := 0;
  rest bigint;
BEGIN
  IF old.session IS NOT DISTINCT FROM new.session THEN
    UPDATE fig SET live = live + is_live - was_live,
      bytes = bytes + is_live * text_size(new.text) - was_live * text_size(old.text),
      lo = least(lo, said), lo_x = CASE WHEN was = said THEN lo_x ELSE least(lo_x, was) END,
      hi = greatest(hi, said),
      hi_x = CASE WHEN was = said THEN hi_x ELSE greatest(hi_x, was) END
      WHERE part = new.part AND name = new.session AND slot = 0;
  ELSE
    UPDATE fig SET n = n - 1, live = live - was_live,
      bytes = bytes - was_live * text_size(old.text), lo_x = least(lo_x, was),
      hi_x = greatest(hi_x, was)
      WHERE part = old.part AND name = old.session AND slot = 0 RETURNING n INTO rest;
    IF rest = 0 THEN
      DELETE FROM fig WHERE part = old.part AND name = old.session AND slot = 0;
      sessions := -1;
    END IF;
    INSERT INTO fig AS f (part, name, n, live, bytes, lo, hi)
      SELECT new.part, new.session, 1, is_live, is_live * text_size(new.text), said, said
      WHERE new.session IS NOT NULL
      ON CONFLICT (part, name, slot) DO UPDATE SET n = f.n + 1,
        live = f.live + excluded.live, bytes = f.bytes + excluded.bytes,
        lo = least(f.lo, said), hi = greatest(f.hi, said) RETURNING f.n INTO rest;
    IF new.session IS NOT NULL AND rest = 1 THEN
      sessions := sessions + 1;
    END IF;
  END IF;
  UPDATE part SET ses = ses + sessions,
    aged = aged + (new.state = 'archived')::int - (old.state = 'archived')::int,
    held = held + (new.state = 'quarantined')::int - (old.state = 'quarantined')::int,
    bare = bare + (new.vec IS NULL)::int - (old.vec IS NULL)::int,
    lo = least(lo, new.created_at), lo_x = CASE WHEN old.created_at = new.created_at
      THEN lo_x ELSE least(lo_x, old.created_at) END,
    hi = greatest(hi, new.updated_at), hi_x = CASE WHEN old.updated_at = new.updated_at
      THEN hi_x ELSE greatest(hi_x, old.updated_at) END
    WHERE id = new.part;
  RETURN NULL;
END $$;

-- Items without the pieces of large values, and tombstones without keys.
CREATE FUNCTION count_others() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE sign int := CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END;
BEGIN
  IF TG_TABLE_NAME = 'item' THEN
    UPDATE part SET docs = docs + sign * c.n FROM (
      SELECT part, count(*) AS n FROM changed WHERE ns <> chr(31) GROUP BY part
    ) AS c WHERE id = c.part;
  ELSE
    UPDATE part SET gone = gone + sign * c.n FROM (
      SELECT part, count(*) AS n FROM changed
      WHERE NOT (id >= chr(1) || chr(2) || '!' AND id < chr(1) || chr(2) || '"')
      GROUP BY part
    ) AS c WHERE part.id = c.part;
  END IF;
  RETURN NULL;
END $$;

-- The name of a user's app in `fig`; partitions of scopes have one of their own.
CREATE FUNCTION fig_name(u part) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN left(u."user", 1) = chr(1) THEN u."user" || u.app ELSE u.app END
$$;

-- Adds `now` to the sums of its app, and subtracts `was`, which is of the same app.
CREATE FUNCTION put_fig(of_app text, was part, now part) RETURNS void
  LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
  at bigint := nextval('fig_slot');
BEGIN
  INSERT INTO fig (part, name, slot, parts, users, live, bytes, n, aged, held, bare, ses,
    docs, gone, hi, hi_x) VALUES (0, of_app, at,
    (now.id IS NOT NULL)::int - (was.id IS NOT NULL)::int,
    coalesce((now.n > 0)::int, 0) - coalesce((was.n > 0)::int, 0),
    coalesce(now.live, 0) - coalesce(was.live, 0),
    coalesce(now.bytes, 0) - coalesce(was.bytes, 0),
    coalesce(now.n, 0) - coalesce(was.n, 0),
    coalesce(now.aged, 0) - coalesce(was.aged, 0),
    coalesce(now.held, 0) - coalesce(was.held, 0),
    coalesce(now.bare, 0) - coalesce(was.bare, 0),
    coalesce(now.ses, 0) - coalesce(was.ses, 0),
    coalesce(now.docs, 0) - coalesce(was.docs, 0),
    coalesce(now.gone, 0) - coalesce(was.gone, 0),
    coalesce(now.hi, -9e99), greatest(now.hi_x,
      CASE WHEN now.id IS NULL OR now.hi < was.hi THEN was.hi END, -9e99));
  IF at % 32 = 0 THEN
    WITH oldest AS (
      SELECT slot FROM fig WHERE part = 0 AND name = of_app ORDER BY slot LIMIT 1000
      FOR UPDATE SKIP LOCKED
    ), taken AS (
      DELETE FROM fig USING oldest WHERE fig.part = 0 AND fig.name = of_app
        AND fig.slot = oldest.slot RETURNING fig.*
    )
    INSERT INTO fig (part, name, slot, parts, users, live, bytes, n, aged, held, bare,
      ses, docs, gone, hi, hi_x)
    SELECT 0, of_app, nextval('fig_slot'), sum(parts), sum(users), sum(live), sum(bytes),
      sum(n), sum(aged), sum(held), sum(bare), sum(ses), sum(docs), sum(gone), max(hi),
      max(hi_x) FROM taken HAVING count(*) > 0;
  END IF;
END $$;

CREATE FUNCTION count_parts() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    PERFORM put_fig(fig_name(new), NULL, new);
  ELSIF TG_OP = 'DELETE' THEN
    PERFORM put_fig(fig_name(old), old, NULL);
  ELSIF fig_name(old) = fig_name(new) THEN
    PERFORM put_fig(fig_name(new), old, new);
  ELSE
    PERFORM put_fig(fig_name(old), old, NULL), put_fig(fig_name(new), NULL, new);
  END IF;
  RETURN NULL;
END $$;

-- Counts what a user has again. The caller is the owner.
CREATE FUNCTION count_again(user_id bigint) RETURNS void
  LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  PERFORM 1 FROM part WHERE id = user_id FOR UPDATE;
  DELETE FROM fig WHERE part = user_id;
  INSERT INTO fig (part, name, n, live, bytes, lo, hi)
    SELECT part, session, count(*), count(*) FILTER (WHERE state = 'live'),
      coalesce(sum(text_size(text)) FILTER (WHERE state = 'live'), 0),
      min(coalesce(ts, created_at)), max(coalesce(ts, created_at))
    FROM mem WHERE part = user_id AND session IS NOT NULL GROUP BY part, session;
  UPDATE part SET n = c.n, aged = c.aged, held = c.held, bare = c.bare, lo_x = 9e99,
    hi_x = -9e99, lo = coalesce(c.lo, 9e99), hi = coalesce(c.hi, -9e99),
    ses = (SELECT count(*) FROM fig WHERE fig.part = user_id),
    docs = (SELECT count(*) FROM item WHERE item.part = user_id AND ns <> chr(31)),
    gone = (SELECT count(*) FROM tomb WHERE tomb.part = user_id
      AND NOT (tomb.id >= chr(1) || chr(2) || '!' AND tomb.id < chr(1) || chr(2) || '"'))
  FROM (
    SELECT count(*) AS n, count(*) FILTER (WHERE state = 'archived') AS aged,
      count(*) FILTER (WHERE state = 'quarantined') AS held,
      count(*) FILTER (WHERE vec IS NULL) AS bare, min(created_at) AS lo,
      max(updated_at) AS hi FROM mem WHERE part = user_id
  ) AS c WHERE part.id = user_id;
END $$;

CREATE TRIGGER count_added AFTER INSERT ON mem
  REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_added();
CREATE TRIGGER count_removed AFTER DELETE ON mem
  REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_removed();
CREATE TRIGGER count_changed AFTER UPDATE ON mem FOR EACH ROW
  WHEN (old.state <> new.state OR old.session IS DISTINCT FROM new.session
    OR old.text <> new.text OR (old.vec IS NULL) <> (new.vec IS NULL)
    OR old.ts IS DISTINCT FROM new.ts OR old.created_at <> new.created_at
    OR old.updated_at <> new.updated_at)
  EXECUTE FUNCTION count_changed();
CREATE TRIGGER count_put AFTER INSERT ON item
  REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_others();
CREATE TRIGGER count_taken AFTER DELETE ON item
  REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_others();
CREATE TRIGGER count_put AFTER INSERT ON tomb
  REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_others();
CREATE TRIGGER count_taken AFTER DELETE ON tomb
  REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_others();
CREATE TRIGGER count_new AFTER INSERT OR DELETE ON part
  FOR EACH ROW EXECUTE FUNCTION count_parts();
CREATE TRIGGER count_known AFTER UPDATE ON part FOR EACH ROW
  WHEN ((old.app, old."user", old.live, old.bytes, old.n, old.aged, old.held, old.bare,
      old.ses, old.docs, old.gone, old.hi, old.hi_x)
    IS DISTINCT FROM (new.app, new."user", new.live, new.bytes, new.n, new.aged,
      new.held, new.bare, new.ses, new.docs, new.gone, new.hi, new.hi_x))
  EXECUTE FUNCTION count_parts();
-- The sums of what is counted of the users who are there. `count_again` adds the rest.
INSERT INTO fig (part, name, slot, parts, live, bytes)
  SELECT 0, name, nextval('fig_slot'), parts, live, bytes FROM (
    SELECT fig_name(p) AS name, count(*) AS parts, sum(live) AS live, sum(bytes) AS bytes
    FROM part AS p GROUP BY 1
  ) AS a;
