"""Trees as text, DOT and plots, which must lead to the predictions of the model."""

import json
import re

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from agbm import AGBMRegressor
from agbm.export import export_text, plot_tree, to_graphviz
from agbm.export._view import view
from export_models import ONE, ROWS, hard_rows, model, scores, table

ALL_DIGITS = {"precision": 17, "max_categories": 100}


def answer(question, row):
    """ "yes", "no" or "missing" to a question as it is printed."""
    name, kind, argument = re.fullmatch(r"(.*?) (<=|is a|in) (.*)", question).groups()
    value = row[name]
    if value is None or value != value:
        return "missing"
    if kind == "in":
        return "yes" if str(value) in argument.strip("{}").split(", ") else "no"
    return "yes" if kind == "is a" or value <= float(argument) else "no"


def values_by_text(text, rows):
    """The values that the lines of a tree give."""
    lines = text.splitlines()[1:]
    depths = [len(re.match(r"[│├└─ ]*", line).group()) // 3 for line in lines]
    for row in rows:
        here = 0
        while True:
            main, facts = re.fullmatch(r"(?:.*?(?:yes|no)(?:, missing)?: )?(.*)  \((.*)\)", lines[here]).groups()
            if "gain" not in facts:
                yield [float(value) for value in main.split(", ")]
                break
            below = [k for k in range(here + 1, len(lines)) if depths[k] == depths[here] + 1][:2]
            said = answer(main, row)
            here = next(k for k in below if said in re.match(r"[│├└─ ]*(.*?): ", lines[k]).group(1).split(", "))


def values_by_graph(dot, rows):
    """The values that a graph in DOT gives."""
    labels = {number: json.loads(text) for number, text in re.findall(r'^  (\d+) \[label=(".*?")[,\]]', dot, re.M)}
    edges = re.findall(r'^  (\d+) -> (\d+) \[label="(.*)"\];$', dot, re.M)
    for row in rows:
        here = "0"
        while "gain" in labels[here]:
            question = " ".join(labels[here].splitlines()[:-2])
            said = answer(question, row)
            here = next(child for parent, child, text in edges if parent == here and said in text.split(", "))
        yield [float(value) for value in " ".join(labels[here].splitlines()[:-1]).split(", ")]


@pytest.mark.slow
@pytest.mark.parametrize("read", [values_by_text, values_by_graph])
@pytest.mark.parametrize("name", ["squared", "three classes", "three classes, vector leaves", "single leaves"])
def test_printed_trees_give_the_scores(name, read):
    fitted = model(name)
    # Categories that fit has seen, or none: what is unknown is missing.
    X = hard_rows(fitted)[::7].replace("never seen", None)
    rows = X.astype({"code": object}).to_dict("records")
    seen = view(fitted)
    total = np.tile(seen.start, (len(X), 1))
    for number, tree in enumerate(seen.trees):
        export = export_text if read is values_by_text else to_graphviz
        total[:, tree.outputs] += list(read(export(fitted, number, **ALL_DIGITS), rows))
    np.testing.assert_allclose(total, scores(fitted, X), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "tree", "title"),
    [
        ("squared", 3, "tree 3 of 8, adds to the score"),
        ("log_loss", 0, "tree 0 of 8, adds to the score of class yes"),
        ("three classes", 4, "tree 4 of 24, adds to the score of class mid"),
        ("three classes, vector leaves", 0, "tree 0 of 8, adds to the scores of classes low, mid, top"),
        ("two outputs", 1, "tree 1 of 16, adds to the score of output 1"),
        ("two outputs, vector leaves", 0, "tree 0 of 8, adds to the scores of outputs 0, 1"),
    ],
)
def test_titles(name, tree, title):
    fitted = model(name, **ONE)
    assert export_text(fitted, tree).splitlines()[0] == title
    assert f'label="{title}"' in to_graphviz(fitted, tree)


def test_exact_text_of_a_small_tree():
    X = pd.DataFrame({"size": [1.0, 2.0, 3.0, 4.0] * 10, "kind": ["new"] * 20 + ["old"] * 20})
    y = 4.0 * (X["size"] > 2.0) + 2.0 * (X["kind"] == "old")
    fitted = AGBMRegressor(
        method="gbm", learning_rate=1.0, max_iter=1, max_depth=2, l2_regularization=0.0, min_samples_leaf=1
    ).fit(X, y)
    gain = f"{20.0 - 10.0 / np.pi:.6g}"  # less what sorting two categories gains by chance, 2 / pi of the noise
    assert export_text(fitted) == (
        "tree 0 of 1, adds to the score\n"
        "size <= 2.5  (rows 40, gain 160)\n"
        f"├─ yes, missing: kind in {{old}}  (rows 20, gain {gain})\n"
        "│  ├─ yes: -1  (rows 10)\n"
        "│  └─ no, missing: -3  (rows 10)\n"
        f"└─ no: kind in {{old}}  (rows 20, gain {gain})\n"
        "   ├─ yes: 3  (rows 10)\n"
        "   └─ no, missing: 1  (rows 10)\n"
    )


def test_long_sets_and_digits_are_shortened():
    fitted = model("squared")
    sizes = {
        (number, node): len(members)
        for number, tree in enumerate(view(fitted).trees)
        for node, members in tree.members.items()
    }
    tree, node = max(sizes, key=sizes.get)
    assert f", ... {sizes[tree, node] - 2} more}}" in export_text(fitted, tree, max_categories=2)
    assert "more}" not in export_text(fitted, tree, max_categories=sizes[tree, node])
    leaf = view(fitted).trees[0].value[-1, 0]
    assert f"{leaf:.2g}  (" in export_text(fitted, 0, precision=2)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["squared", "three classes, vector leaves", "single leaves", "no trees"])
def test_plot_has_every_node_and_edge(name):
    fitted = model(name)
    ax = plot_tree(fitted)
    tree = view(fitted).trees[0]
    n_nodes = len(tree.feature)
    assert len(ax.lines) == n_nodes - 1
    assert len(ax.texts) == 2 * n_nodes - 1
    rows = [int(re.search(r"rows (\d+)", text.get_text()).group(1)) for text in ax.texts if "rows" in text.get_text()]
    assert sorted(rows) == sorted(tree.count.tolist())
    ax.figure.canvas.draw()
    plt.close(ax.figure)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["squared", "three classes, vector leaves"])
def test_boxes_do_not_overlap(name):
    ax = plot_tree(model(name))
    ax.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in ax.texts if "rows" in text.get_text()]
    assert len(boxes) > 8
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    plt.close(ax.figure)


def test_plot_on_given_axes():
    figure, axes = plt.subplots(1, 2)
    assert plot_tree(model("log_loss", **ONE), 1, ax=axes[1]) is axes[1]
    assert axes[1].get_title() == "tree 1 of 8, adds to the score of class yes"
    assert not axes[0].texts
    plt.close(figure)


@pytest.mark.slow
def test_names_of_any_kind(tmp_path):
    X = pd.DataFrame({'a "quoted" \\N name': np.arange(40.0), "$x_{$": np.arange(40.0)[::-1]})
    fitted = AGBMRegressor(max_iter=1).fit(X, np.arange(40.0))
    assert r'"a \"quoted\" \\N name' in to_graphviz(fitted)
    ax = plot_tree(fitted)
    ax.figure.savefig(tmp_path / "tree.png")
    plt.close(ax.figure)


@pytest.mark.parametrize("export", [export_text, to_graphviz, plot_tree])
def test_errors(export):
    fitted = model("squared", **ONE)
    with pytest.raises(ValueError, match=r"tree=8 must be an integer from 0 to 7: the model has 8 trees"):
        export(fitted, 8)
    with pytest.raises(ValueError, match=r"tree='first' must be an integer"):
        export(fitted, "first")
    with pytest.raises(ValueError, match=r"precision=0 must be a positive integer"):
        export(fitted, precision=0)
    with pytest.raises(ValueError, match=r"max_categories=1.5 must be a positive integer"):
        export(fitted, max_categories=1.5)


def test_rows_of_the_root_are_those_of_training():
    assert f"(rows {ROWS}," in export_text(model("squared", **ONE))
    assert table().shape[0] == ROWS
