"""Data sets, timing, targets, tables and pictures that benchmarks share."""
