-- Who may do what. vecall_app owns nothing and sees the one user of its transaction.
-- vecall_keeper does what concerns all users. vecall_reader reads what vecall_app reads.
DO $$
DECLARE name text;
BEGIN
  FOREACH name IN ARRAY
    '{part,mem,vec_next,chg,tomb,hist,idem,trig,replaced,told,snap,item}'::text[]
  LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
    EXECUTE format(
      'CREATE POLICY one ON %I TO vecall_app, vecall_reader USING (%s = '
      '(SELECT nullif(current_setting(''vecall.part'', true), '''')::bigint))',
      name,
      CASE name WHEN 'part' THEN 'id' WHEN 'vec_next' THEN '(rid >> 32)' ELSE 'part' END
    );
    EXECUTE format(
      'CREATE POLICY every ON %I TO vecall_keeper, vecall_owner USING (true)', name
    );
    EXECUTE format('GRANT SELECT ON %I TO vecall_reader', name);
    EXECUTE format(
      'GRANT SELECT, UPDATE, DELETE ON %I TO vecall_app, vecall_keeper', name
    );
    IF current_setting('server_version_num')::int >= 170000 THEN
      EXECUTE format('GRANT MAINTAIN ON %I TO vecall_keeper', name);
    END IF;
    IF name <> 'part' THEN -- `enter` inserts users
      EXECUTE format('GRANT INSERT ON %I TO vecall_app, vecall_keeper', name);
    END IF;
  END LOOP;
END $$;
GRANT SELECT ON meta, model TO vecall_app, vecall_keeper, vecall_reader;
GRANT INSERT, UPDATE, DELETE ON meta, model TO vecall_keeper;

-- The doors to the directory of users. No role can list it with the rights of vecall_app.
-- enter: finds or creates a user, makes it the user of the transaction, and locks it.
CREATE FUNCTION enter(
  for_app text, for_user text, hidden text, make boolean, at float8,
  OUT id bigint, OUT seq bigint, OUT live bigint, OUT bytes bigint, OUT head bigint,
  OUT is_hidden boolean
) LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE tries int := 0;
BEGIN
  -- Jobs across users lock the table `model` alone, so they wait for this transaction.
  PERFORM 1 FROM model WHERE state = 'active';
  LOOP
    is_hidden := false;
    SELECT p.id, p.seq, p.live, p.bytes, p.head INTO id, seq, live, bytes, head
      FROM part p WHERE p.app = for_app AND p."user" = for_user FOR UPDATE;
    IF id IS NULL AND hidden IS NOT NULL THEN
      SELECT p.id, p.seq, p.live, p.bytes, p.head INTO id, seq, live, bytes, head
        FROM part p WHERE p.app = '' AND p."user" = hidden FOR UPDATE;
      is_hidden := id IS NOT NULL;
    END IF;
    IF id IS NULL AND make THEN
      INSERT INTO part (app, "user", created_at) VALUES (for_app, for_user, at)
        ON CONFLICT DO NOTHING;
      tries := tries + 1; -- another server may create or delete the user meanwhile
      IF tries > 100 THEN
        RAISE EXCEPTION 'a user is created and deleted at once'
          USING ERRCODE = 'serialization_failure';
      END IF;
      CONTINUE;
    END IF;
    PERFORM set_config('vecall.part', coalesce(id::text, ''), true),
      set_config('vecall.head', (
        ('x0' || substr(md5(gen_random_uuid()::text), 1, 15))::bit(64)::bigint | 1
      )::text, true);
    RETURN;
  END LOOP;
END $$;
-- look: makes a user the user of the transaction, to read.
CREATE FUNCTION look(for_app text, for_user text, hidden text) RETURNS bigint
  LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE found bigint;
BEGIN
  SELECT p.id INTO found FROM part p WHERE p.app = for_app AND p."user" = for_user;
  IF found IS NULL AND hidden IS NOT NULL THEN
    SELECT p.id INTO found FROM part p WHERE p.app = '' AND p."user" = hidden;
  END IF;
  PERFORM set_config('vecall.part', coalesce(found::text, ''), true);
  RETURN found;
END $$;
-- heads: the versions of users, by the place of their names in the arrays. Each name is
-- looked up by the index. PL/pgSQL stores the plan of that. A function in SQL is planned
-- in every call, which takes longer than the look-up of a name.
CREATE FUNCTION heads(apps text[], users text[])
  RETURNS TABLE (n bigint, part bigint, seq bigint, head bigint)
  LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
  FOR place IN 1 .. cardinality(apps) LOOP
    SELECT place, p.id, p.seq, p.head INTO n, part, seq, head
      FROM part p WHERE p.app = apps[place] AND p."user" = users[place];
    IF FOUND THEN
      RETURN NEXT;
    END IF;
  END LOOP;
END $$;
REVOKE ALL ON FUNCTION enter, look, heads FROM PUBLIC;
GRANT EXECUTE ON FUNCTION enter TO vecall_app, vecall_keeper;
GRANT EXECUTE ON FUNCTION look, heads TO vecall_app, vecall_keeper, vecall_reader;
