-- A user keeps its number and its names. Only names that a purge has hidden come back,
-- with the rights of vecall_app, as servers of schema 1 do it too.
REVOKE UPDATE ON part FROM vecall_app;
GRANT UPDATE (app, "user", seq, head, live, bytes, created_at, snap, crc, item)
  ON part TO vecall_app;
CREATE FUNCTION keep_names() RETURNS trigger
  LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  IF old.app <> '' AND (new.app, new."user") IS DISTINCT FROM (old.app, old."user")
      AND NOT pg_has_role(current_user, 'vecall_keeper', 'USAGE') THEN
    RAISE EXCEPTION 'a user keeps its names' USING ERRCODE = 'insufficient_privilege';
  END IF;
  RETURN new;
END $$;
REVOKE ALL ON FUNCTION keep_names FROM PUBLIC;
CREATE TRIGGER keep_names BEFORE UPDATE OF app, "user" ON part
  FOR EACH ROW EXECUTE FUNCTION keep_names();
