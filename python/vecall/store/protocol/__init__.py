"""The storage protocol: the operations that vecall needs of its source of truth."""
