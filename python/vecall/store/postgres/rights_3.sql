-- A user's own counters are read as the other rows are; those of apps by the keeper.
ALTER TABLE fig ENABLE ROW LEVEL SECURITY;
ALTER TABLE fig FORCE ROW LEVEL SECURITY;
CREATE POLICY one ON fig TO vecall_app, vecall_reader USING (part > 0 AND part =
  (SELECT nullif(current_setting('vecall.part', true), '')::bigint));
CREATE POLICY every ON fig TO vecall_keeper, vecall_owner USING (true);
GRANT SELECT ON fig TO vecall_reader, vecall_app, vecall_keeper;
GRANT DELETE ON fig TO vecall_keeper; -- names of apps that a purge removes
REVOKE ALL ON FUNCTION text_size, count_added, count_removed, count_changed,
  count_others, fig_name, put_fig, count_parts, count_again FROM PUBLIC;
