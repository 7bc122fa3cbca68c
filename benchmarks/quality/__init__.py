"""Test losses of default settings on many tables, and what each part of the default is worth."""
