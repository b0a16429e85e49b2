"""The vector engine beside other libraries."""
