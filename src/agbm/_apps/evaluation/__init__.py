"""Evaluating, comparing and tuning models."""
