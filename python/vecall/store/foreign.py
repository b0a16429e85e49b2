"""Reads the tables of SQLite files that other programs wrote."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

from vecall.errors import BusyError, CorruptFileError, StorageError


class ForeignFile:
    """A SQLite file of another program, opened read only; nothing of it runs.

    Views and triggers are not read. A text that is no UTF-8 has U+FFFD in it.

    Attributes:
        columns: The names of the columns of each table, in order.
    """

    columns: dict[str, tuple[str, ...]]

    def __init__(self, path: Path) -> None:
        """Open the file.

        Raises:
            CorruptFileError: It is not a SQLite file, or it is damaged.
            StorageError: It cannot be opened.
        """
        uri = f"file:{quote(str(path.absolute()))}?mode=ro"
        try:
            self._db = sqlite3.connect(uri, uri=True, check_same_thread=False)
            self._db.text_factory = lambda data: data.decode("utf-8", "replace")
            self._db.row_factory = sqlite3.Row
            self._db.execute("PRAGMA trusted_schema = OFF")
        except sqlite3.Error as error:
            msg = "path: the SQLite file cannot be opened"
            raise StorageError(msg) from error
        try:
            named = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
            self.columns = {
                table: tuple(row["name"] for row in self._columns_of(table))
                for table in [row["name"] for row in self._execute(named)]
            }
        except BaseException:
            self._db.close()
            raise

    def __enter__(self) -> ForeignFile:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file."""
        self._db.close()

    def has(self, table: str, columns: str) -> bool:
        """Whether there is a table with these columns, given with spaces between."""
        return set(columns.split()) <= set(self.columns.get(table, ()))

    def count(self, table: str) -> int:
        """Return the number of a table's rows."""
        found = next(self._execute(f"SELECT count(*) AS n FROM {_quoted(table)}"))
        return int(found["n"])

    def rows(self, table: str, order: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
        """Yield the rows of a table as mappings, one at a time.

        Args:
            table: The name.
            order: The columns to order by, before the order of writing.

        Raises:
            CorruptFileError: The file is damaged; the message names the row.
        """
        by = ", ".join([*map(_quoted, order), "rowid"])
        number = 0
        sql = f"SELECT * FROM {_quoted(table)} ORDER BY {by}"
        try:
            for number, row in enumerate(self._execute(sql), 1):  # noqa: B007
                yield dict(row)
        except CorruptFileError as error:
            msg = f"after row {number} of a table: {error}"
            raise CorruptFileError(msg) from error

    def _columns_of(self, table: str) -> Iterator[Any]:
        return self._execute(f"PRAGMA table_info({_quoted(table)})")

    def _execute(self, sql: str) -> Iterator[Any]:
        try:
            yield from self._db.execute(sql)
        except sqlite3.DatabaseError as error:
            if "locked" in str(error):
                msg = "path: another process is writing the SQLite file"
                raise BusyError(msg) from error
            msg = "path: the SQLite file is damaged, or is none"
            raise CorruptFileError(msg) from error


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
