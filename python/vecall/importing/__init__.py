"""Memories from the files of other programs, and back into files that people read.

    from vecall import MemoryService
    from vecall.importing import import_file

    with MemoryService("memory.db") as memory:
        report = import_file(memory, "conversations.json", app_name="a", user_id="u")

`vecall import` and `vecall export` are made of it.
"""

from __future__ import annotations

from vecall.importing.documents import EXPORTS, export_file
from vecall.importing.import_job import FORMATS, ImportReport, import_file

__all__ = ["EXPORTS", "FORMATS", "ImportReport", "export_file", "import_file"]
