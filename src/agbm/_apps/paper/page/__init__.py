"""The page with the results: its sections, figures and files."""
