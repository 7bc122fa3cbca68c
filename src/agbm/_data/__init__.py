"""Input: tables, categories, blocks of rows, held-out rows."""
