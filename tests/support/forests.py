"""Random forests as arrays, and memory layouts of the rows to predict."""

import numpy as np

LAYOUTS = {
    "rows": np.ascontiguousarray,
    "columns": np.asfortranarray,
    "every second row": lambda X: np.repeat(X, 2, axis=0)[::2],
    "backwards": lambda X: np.ascontiguousarray(X[:, ::-1])[:, ::-1],
}


def random_tree(random, n_features, n_leaves, thresholds, n_sets):
    """Nodes of one tree as lists: randomly chosen leaves are split until there are enough."""
    nodes = [[-1, 0.0, -1, 0, -1]]
    leaves = [0]
    while len(leaves) < n_leaves:
        node = leaves.pop(random.integers(len(leaves)) if random.random() < 0.7 else -1)
        categories = int(random.integers(n_sets)) if n_sets and random.random() < 0.1 else -1
        nodes[node] = [
            random.integers(n_features),
            random.choice(thresholds),
            len(nodes),
            random.integers(2),
            categories,
        ]
        leaves += [len(nodes), len(nodes) + 1]
        nodes += [[-1, 0.0, -1, 0, -1], [-1, 0.0, -1, 0, -1]]
    return nodes


def random_forest(random, n_features, n_trees, most_leaves, thresholds, n_values, n_columns, n_sets):
    """The arrays of a forest."""
    nodes, roots = [], []
    for _ in range(n_trees):
        tree = random_tree(random, n_features, random.integers(1, most_leaves + 1), thresholds, n_sets)
        roots.append(len(nodes))
        nodes += [[f, t, left + len(nodes) if left >= 0 else -1, m, c] for f, t, left, m, c in tree]
    feature, threshold, left, missing_left, categories = (list(column) for column in zip(*nodes, strict=True))
    return {
        "roots": np.array(roots, dtype=np.int32),
        "first_column": random.integers(0, n_columns - n_values + 1, n_trees).astype(np.int32),
        "feature": np.array(feature, dtype=np.int32),
        "threshold": np.array(threshold, dtype=np.float64),
        "left": np.array(left, dtype=np.int32),
        "missing_left": np.array(missing_left, dtype=np.uint8),
        "categories": np.array(categories, dtype=np.int32),
        "category_words": random.integers(0, 2**63, n_sets).astype(np.uint64),
        "category_start": np.arange(n_sets + 1),
        "value": random.normal(size=(len(nodes), n_values)),
    }
