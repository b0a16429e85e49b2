"""The storage protocol over one SQLite file, or a database in memory."""
