"""The experiments: what is computed, without files or pages."""
