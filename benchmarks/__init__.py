"""Benchmarks of agbm and other libraries. benchmarks/README.md lists the scripts; they are run from the root."""
