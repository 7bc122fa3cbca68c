"""Clusters, many cores, GPUs, and data larger than memory."""
