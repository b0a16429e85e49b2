"""Single calls, timed by pytest-benchmark."""
