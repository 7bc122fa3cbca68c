"""Input data: tables, categories, blocks of rows and hold-out sets."""
