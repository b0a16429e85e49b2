"""The storage protocol: what vecall needs of the place where memories are the truth."""
