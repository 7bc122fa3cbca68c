"""Tables: columns, categories, dates, text, batches, blocks of rows, held-out rows and digests of rows.

It turns what users pass as X into numbers and bins. It imports `_tree` for the bins, and everything below it.
"""
