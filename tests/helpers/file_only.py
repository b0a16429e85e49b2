"""Tests of what only a file has; `--storage=postgres` skips them with the reason."""

from __future__ import annotations

import re

_TESTS = {
    "reads bytes of the file": """
        items/test_damaged_indexes.py
        store/test_unwritable_peek.py
        store/test_kept_backups.py
        items/test_item_plans.py
        items/test_large_items.py::test_a_damaged_piece
        items/test_large_items.py::test_a_lost_piece
        lifecycle/test_deletion_cascade.py::test_a_deletion_drops_turns_that_wait
        lifecycle/test_deletion_purge.py::test_a_purge_gives_the_disk_back
        lifecycle/test_deletion_purge.py::test_forgetting_leaves_neither_name_nor_id
        lifecycle/test_deletion_purge.py::test_nothing_deleted_is_in_any_file_after_a_purge
        lifecycle/test_erasing.py
        lifecycle/test_erased_name_remains.py
        lifecycle/test_expiry_sweep.py::test_nothing_is_written_while_nothing_is_due
        lifecycle/test_forget_proposals.py::test_what_was_proposed_goes_and_stays_away
        lifecycle/test_history.py::test_a_past_that_expired_does_not_let
        lifecycle/test_history_retention.py
        lifecycle/test_purged_digests.py::test_digests_are_found_where_they_are
        lifecycle/test_purged_names.py::test_no_file_has_the_name_of_a_deleted_user
        lifecycle/test_triggers.py::test_observing_costs_no_write_when_nothing_is_new
        ingest/test_write_hook.py::test_what_is_redacted_is_nowhere
        lifecycle/test_observed_sessions.py::test_the_hook_judges_observed_turns_before
        embedding/test_file_model.py::test_another_model_is_refused_before_any_write
    """,
    "another process opens the file by its path": """
        cli/test_default_path.py
        cli/test_texts.py::test_a_reembedding
        cli/test_texts.py::test_an_export_of_a_user
        store/test_replaced_file.py
        durability/test_kills.py
        embedding/test_reembed.py::test_another_process_with_the_old_model
        lifecycle/test_corrections.py::test_another_process_corrects
        lifecycle/test_forget_proposals.py::test_another_process_confirms
        lifecycle/test_purged_names.py::test_a_purge_that_is_killed
        lifecycle/test_purged_names.py::test_another_process_notices
        lifecycle/test_triggers_restart.py::test_of_two_processes_one_asks_the_model
        search/test_mark_used.py::test_an_acknowledged_use_survives_a_kill
        search/test_mark_used.py::test_processes_see_each_others_uses
        search/test_mark_used.py::test_uses_of_processes_at_the_same_time
        service/test_cache_budget.py::test_another_process_writes_to_users
        store/test_group_commit.py
        store/test_processes.py
        store/test_versions_of_memories.py::test_no_update_is_lost_between_processes
        adk/test_conformance.py::test_our_service_passes[Two processes on one file
        lifecycle/test_expiry_sweep.py::test_two_processes_sweep_one_file
        items/test_item_processes.py
        items/test_items_in_files.py
    """,
    "the command or the URI is given the path of a file": """
        adk/test_configuration.py::test_a_uri_names_a_file
        adk/test_configuration.py::test_without_agents_dir_a_uri_starts
        adk/test_configuration.py::test_register_makes_the_scheme_known
        cli/test_commands.py::test_what_was_imported_is_found_with_who
        cli/test_import.py::test_an_export_for_people
        cli/test_commands.py::test_turns_of_one_session_are_neighbours
        cli/test_commands.py::test_importing_twice_adds_nothing
        cli/test_commands.py::test_a_bad_line_is_named_and_the_good_ones
        cli/test_commands.py::test_names_can_come_from_the_command_line
        cli/test_commands.py::test_a_search_
        cli/test_commands.py::test_stats_count_what_is_there
        cli/test_commands.py::test_the_statistics_
        cli/test_commands.py::test_a_command_that_only_shows
        cli/test_commands.py::test_the_demo_makes_a_file_of_its_own
        cli/test_commands.py::test_an_import_keeps_every_documented_field
        cli/test_errors.py::test_an_error_names_the_file_as_it_was_typed
        cli/test_errors.py::test_an_embedder_of_a_module_embeds_and_moves
        cli/test_errors.py::test_none_is_words_alone_and_an_unknown_name
        cli/test_errors.py::test_counts_of_this_schema_are_those
        cli/test_errors.py::test_a_home_folder_may_be_written
        cli/test_errors.py::test_what_was_typed_wrong_is_named
        cli/test_errors.py::test_an_editor_that_fails_changes_nothing
        cli/test_errors.py::test_no_command_fails_with_a_traceback
        cli/test_shell.py
        cli/test_import.py::test_a_pipe_carries_an_export
        cli/test_terminal_escapes.py::test_a_pipe_gets_no_escape
        cli/test_terminal_escapes.py::test_a_terminal_gets_no_escape
        adk/test_doctor.py::test_the_file_of_the_uri_is_examined
        lifecycle/test_consolidation_schedule.py::test_the_command
        lifecycle/test_purged_names.py::test_the_command_erases
        search/test_trust_floor.py::test_the_command_line_searches_with_a_floor
        server/test_command.py
        server/test_filter_arguments.py::test_a_filter_on_the_command_line
    """,
    "a backup is a copy of a file": """
        server/test_admin.py::test_a_backup_
        server/test_admin.py::test_the_client_does_not_say_where_a_backup
        server/test_admin.py::test_one_backup_is_made_at_a_time
        server/test_admin.py::test_who_may_do_what_an_admin_may
        service/test_read_only.py::test_each_writing_method_writes
        service/test_loop_steps.py::test_no_call_takes
        service/test_read_only.py::test_a_service_that_only_reads_answers
        service/test_telemetry.py::test_each_operation_is_one_span
        service/test_telemetry.py::test_nothing_that_a_caller_handed_in_is_told
        adk/test_requirements.py::test_the_file_is_the_memory
        service/test_user_memory.py::test_a_bound_method_does_what
        ingest/test_provenance.py::test_a_memory_keeps_where_it_comes_from
        lifecycle/test_purged_names.py::test_a_backup_and_what_is_saved
        search/test_mark_used_storage.py::test_copies_have_the_uses
        store/test_backup_export_import.py
        store/test_restored_under_service.py
    """,
    "opens files and databases, each by its own name": """
        store/test_copying.py
    """,
    "damages a file, or recovers what is left of it": """
        search/test_mark_used_storage.py
        service/test_dropped_services.py::test_the_writer_survives_an_error
        store/test_damage.py
        store/test_doctor.py
        store/test_committed_rows_load.py
        store/test_old_checksums.py
        store/test_export_failures.py
        store/test_export_import_states.py::test_no_damage
        lifecycle/test_clock.py::test_a_damaged_mark_in_a_file
    """,
    "the disk, the folder and the log of a file": """
        durability/test_storage_faults.py
        lifecycle/test_expiry_sweep.py::test_a_sweep_that
        lifecycle/test_expiry_sweep.py::test_a_service_is_closed_while_it_sweeps
        search/test_mark_used.py::test_a_full_disk_marks_nothing
        service/test_read_only_mount.py
        store/test_file_safety.py
        store/test_files.py
        store/test_wal_size.py
    """,
    "the schema, the clock and the plans of SQLite": """
        embedding/test_reembed.py::test_a_moved_file_answers_as_one_that_was_made_so
        embedding/test_reuse.py::test_looking_for_a_vector_costs_the_same
        lifecycle/test_clock_reset.py
        service/test_concurrent_first_write.py::test_a_user_made_between_two_looks
        service/test_write_costs.py
        lifecycle/test_purged_digests.py::test_what_a_summary_took_in
        store/test_schema_migration.py
    """,
    "snapshots are in a folder beside the file": """
        lifecycle/test_corrections.py::test_a_restored_snapshot_has_the_correction
        lifecycle/test_history.py::test_a_deleted_memory_takes_its_past_with_it
        service/test_row_cache.py::test_a_snapshot_of_another_process
        store/test_snapshot
    """,
    "a file is always current": """
        service/test_option_pairs.py::test_what_cannot_go_together_is_refused_when_it_is_opened[file-seconds
    """,
    "a few small items of a file are read on the event loop": """
        items/test_item_reads.py::test_large_values_are_read_and_parsed
    """,
    "holds up the one writer thread of a file": """
        embedding/test_reembed_switch.py
        adk/test_doors.py::TestMemoryService::test_the_event_loop_turns
        service/test_door_programs.py::TestService::test_the_event_loop_turns
        service/test_door_programs.py::test_a_program_detects_its_defect[BlockingDoor
        service/test_event_loop.py::test_a_slow_write_blocks_no_coroutine
    """,
}
_REASONS = [
    (re.compile(r"^(tests/)?" + re.escape(test.strip())), reason)
    for reason, tests in _TESTS.items()
    for test in tests.strip().splitlines()
]


def reason_of(node: str) -> str | None:
    """Return why a test is for files only; None if it is not."""
    for test, reason in _REASONS:
        if test.match(node):
            return reason
    return None
