"""Reading of tables in files: CSV, Parquet and Arrow; labels, offsets, identifiers and numbers in text."""
