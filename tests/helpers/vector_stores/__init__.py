"""The contract of vector stores as tests, and a store to compare with."""
