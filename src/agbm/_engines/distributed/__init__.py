"""Training on rows that are spread over other processes.

The algorithms (boosting.py) run in one process, the driver, as they do on one machine. Operations on functions go to
the shards as orders, and every shard applies them to its own rows. Whatever the driver asks for (losses, angles,
histograms) is a sum over the shards. All of these sums are exact, so the result does not depend on how the rows are
divided into shards.

The state of a shard follows from its rows and the orders so far. A lost shard is created again from its source and
executes the orders that still matter: those that made the trees so far and the functions that are in use.

messages.py: orders, messages and replies. log.py: the driver's record of orders, and handles to functions. shard.py:
the rows of one process. median.py: a median over all shards. objective.py: the objective of the algorithms.
growth.py: trees on shards. partition_tasks.py, shard_tasks.py: what
the processes do with partitions, and how they make shards of them. binding.py: from prepared rows to an objective. None
of these imports Dask; dask_*.py do. examples/on_ray.py uses the same modules on Ray.
"""
