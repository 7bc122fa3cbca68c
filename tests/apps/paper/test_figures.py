"""The figures of the paper's experiments: two themes, the same bytes each time, and what is in them."""

from xml.etree import ElementTree

import numpy as np
import pytest

from agbm._apps.paper.experiments import angles, curves, proof, restarts
from agbm._apps.paper.experiments.curves import Curve
from agbm._apps.paper.page import figures
from agbm._apps.paper.page.themes import THEMES, css_variables, plain_powers

MOST_BYTES = 120_000


def curve_of(line, diverged=0):
    """An artificial curve; those of AGBM diverge."""
    trees = list(range(0, 120, 2))
    losses = [float(f"{300.0 * np.exp(-0.05 * n) + 0.01:.6g}") for n in trees]
    if diverged:
        trees, losses = trees[:20], [5.0**k for k in range(20)]
    return Curve(line, trees, losses, losses, diverged, min(losses), trees[losses.index(min(losses))], losses[-1])


def curves_of(plan):
    lines = [line for step in plan.steps for line in plan.lines(step)]
    return [curve_of(line, diverged=5 if line.gamma == 1.0 else 0) for line in lines]


def run_of(setting, method, gamma, period=np.inf):
    """An artificial run, whose gap is divided by ten every ten trees; without restarts it diverges."""
    trees = list(range(1, 62, 2))
    gaps = [10.0 ** (n / 10.0 if method == "agbm" else -n / 10.0) for n in trees]
    return restarts.Run(
        setting, method, gamma, False, period, 0.5, 0, method == "agbm", [21, 41, None], [], trees, gaps
    )


def runs_of(setting):
    methods = [(method, gamma) for gamma in (*restarts.MOMENTA, 0.05) for method in ("agbm", "option 1", "option 2")]
    return [run_of(setting, "gbm", 0.0), *(run_of(setting, *of, period=8.0) for of in methods)]


def text_of(path):
    """What an SVG file says, and that it can be parsed."""
    root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    return [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]


@pytest.fixture(scope="module")
def tracks(classes):
    known = proof.known_problem(classes._replace(X=classes.X[:60], y=classes.y[:60]))
    return list(proof.tracks(known, iterations=12))


@pytest.fixture(scope="module")
def drawn(tmp_path_factory, tracks):
    """The files of all functions by their name, and the input of the last one."""
    folder = tmp_path_factory.mktemp("figures")
    settings = [restarts.Setting("diabetes", 10.0, 3), restarts.Setting("diabetes", 10.0, None)]
    samples = [angles.Sample("housing", None), angles.Sample("housing", None, 0.3)]
    inputs = {
        "draw_losses": [curve for plan in (figures.PLANS[0], figures.PLANS[2]) for curve in curves_of(plan)],
        "draw_tracks": tracks,
        "draw_restarts": [run for setting in settings for run in runs_of(setting)],
        "draw_angles": [
            angles.Angles(sample, 506, depth, 0.1, 0.2, 0.3, 0.1, 0.4) for sample in samples for depth in angles.DEPTHS
        ],
    }
    return {name: getattr(figures, name)(of, folder) for name, of in inputs.items()}, inputs["draw_angles"]


def test_every_figure_in_both_themes(drawn):
    stems = {
        "draw_losses": ["a1a", "vanilla"],
        "draw_tracks": ["theory-sonar"],
        "draw_restarts": ["restarts"],
        "draw_angles": ["angles"],
    }
    for name, paths in drawn[0].items():
        assert [path.name for path in paths] == [f"{stem}-{theme}.svg" for stem in stems[name] for theme in THEMES]
        for path in paths:
            assert len(path.read_bytes()) < MOST_BYTES
            assert "<script" not in path.read_text(encoding="utf-8")
            assert "dc:date" not in path.read_text(encoding="utf-8")


def test_the_same_bytes_each_time(drawn, tmp_path):
    files, angles_found = drawn
    for path, again in zip(files["draw_angles"], figures.draw_angles(angles_found, tmp_path), strict=True):
        assert path.read_bytes() == again.read_bytes()


def test_texts_are_whole(drawn):
    """Shortening the coordinates must not shorten numbers at the axes."""
    light, _ = drawn[0]["draw_restarts"]
    texts = text_of(light)
    assert {"0.001", "10⁻⁴", "number of trees", "trees of depth 3", "exact trees"} <= set(texts)
    assert "0.00" not in texts


def test_colours_of_the_themes(drawn):
    for paths in drawn[0].values():
        for path in paths:
            text = path.read_text(encoding="utf-8").lower()
            theme, other = THEMES["light"], THEMES["dark"]
            if path.stem.endswith("dark"):
                theme, other = other, theme
            assert theme.text in text
            assert other.text not in text
            assert "fill: #ffffff" not in text  # the background is that of the page


def test_losses(drawn, tmp_path):
    light, *_ = drawn[0]["draw_losses"]
    texts = text_of(light)
    assert {"η = 1", "η = 0.1", "η = 0.01", "training loss", "test loss", "GBM", "AGBM, γ = 0.3"} <= set(texts)
    assert "sign of the released code" in texts
    assert not any("VAGBM" in text for text in texts)
    some = [curve for curve in curves_of(figures.PLANS[1]) if curve.line.step != 0.1]
    assert figures.draw_losses(some, tmp_path) == []  # figures with missing curves are not drawn


def test_all_lines_have_a_look():
    looks = [figures.look(line) for line in curves.lines() if line[:2] == ("a1a", 3) and line.step in (None, 1.0)]
    assert len(set(looks)) == len(looks) == 13
    for look in looks:
        assert f"--plot-{look.colour}: " in css_variables()


def test_a_diverging_run_is_marked_where_it_leaves_the_panel():
    import matplotlib.pyplot as plt

    _, axis = plt.subplots()
    axis.set_ylim(0.0, 10.0)
    for y, place in (([1.0, 5.0, 15.0, 100.0], (1.5, 10.0)), ([1.0, 2.0, 3.0, 4.0], (3.0, 4.0))):
        figures._cross(axis, [0.0, 1.0, 2.0, 3.0], y, "black")
        np.testing.assert_allclose(np.ravel(axis.lines[-1].get_data()), place)
    plt.close()


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.001, "0.001"), (1e-4, "10⁻⁴"), (300.0, "300"), (-1000.0, "−1,000"), (-1e6, "−10⁶")],
)
def test_labels_of_logarithmic_axes(value, text):
    assert plain_powers()(value, 0) == text
