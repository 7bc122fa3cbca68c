"""Where trees are grown: on a GPU (`device`) or in the processes of a cluster (`distributed`).

An engine is a source of rows for a fit; its models have the same bits as those of the CPU. It imports `_kernels`,
`_fit` and everything below them.
"""
