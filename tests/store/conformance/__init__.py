"""What every implementation of the storage protocol must satisfy.

The suite knows `vecall.store.Storage` and the jobs alone: no SQL, no file. It runs over
each of `helpers.storage_places.PLACES`; another implementation is one more entry there.
A place says whether it can be opened several times at once (`is_shared`).

An implementation must satisfy, beyond what the docstrings of the protocol say:

- `test_model`: every program of jobs leaves what a plain dictionary says it leaves,
  seen through all that have the storage open.
- `test_reads`: one block of reads sees one state. No read survives its block.
- `test_versions`: the version changes with each change and only then; `changed_since`
  and the rows that it names turn any earlier state into the present one.
- `test_writes`: commit, then publish, then acknowledge; a job that fails leaves nothing
  and takes no other job with it; what was acknowledged is seen by everybody.
- `test_lifetime`: what was submitted before a close is written; after it everything
  raises ClosedError; identity and expiry clock outlast an opening.
- `test_models`: one active model; a migration that others may write into.
- `test_snapshots`: a snapshot is read only while it is on record.
- `test_exports`: what one storage exports and another imports is exported again alike.
"""

from __future__ import annotations
