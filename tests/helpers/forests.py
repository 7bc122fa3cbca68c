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


def random_forest(random, n_features, n_trees, most_leaves, thresholds, n_values, n_columns, n_sets, set_words=1):
    """The arrays of a forest; a set of categories has up to `set_words` words."""
    nodes, roots = [], []
    for _ in range(n_trees):
        tree = random_tree(random, n_features, random.integers(1, most_leaves + 1), thresholds, n_sets)
        roots.append(len(nodes))
        nodes += [[f, t, left + len(nodes) if left >= 0 else -1, m, c] for f, t, left, m, c in tree]
    feature, threshold, left, missing_left, categories = (list(column) for column in zip(*nodes, strict=True))
    n_words = random.integers(1, set_words + 1, n_sets) if set_words > 1 else np.ones(n_sets, dtype=np.int64)
    ends = np.append(0, np.cumsum(n_words))
    return {
        "roots": np.array(roots, dtype=np.int32),
        "first_column": random.integers(0, n_columns - n_values + 1, n_trees).astype(np.int32),
        "feature": np.array(feature, dtype=np.int32),
        "threshold": np.array(threshold, dtype=np.float64),
        "left": np.array(left, dtype=np.int32),
        "missing_left": np.array(missing_left, dtype=np.uint8),
        "categories": np.array(categories, dtype=np.int32),
        "category_words": random.integers(0, 2**64, int(ends[-1]), dtype=np.uint64),
        "category_start": ends,
        "value": random.normal(size=(len(nodes), n_values)),
    }
