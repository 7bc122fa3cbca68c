"""The verdicts on the paper's claims: other results give other verdicts, and the page has what they link to."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from agbm._apps.paper import results
from agbm._apps.paper.page import claims, document, write
from agbm._apps.paper.page.curve_sections import Curves
from documents import ROOT

FOLDER = ROOT / "docs" / "_static" / "paper"

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="there is no folder docs")


@pytest.fixture(scope="module")
def stored():
    return results.load(FOLDER)


@pytest.fixture(scope="module")
def sections(stored):
    return write.sections(stored)


def flat(sections):
    return [one for section in sections for one in (section, *flat(section.subsections))]


def decided(found):
    """The verdicts by the beginning of their claims."""
    return {claim.claim: claim.verdict for claim in found}


def with_curves(stored, change):
    return Curves(
        [change(curve) if curve.line.method.startswith(("agbm", "vagbm")) else curve for curve in stored.curves]
    )


def with_losses(stored, method, factor):
    """The table with other losses of a method, relative to those of GBM."""
    outcomes = dict(stored.table.outcomes)
    for run in outcomes:
        if run.method == method:
            outcomes[run] = [
                replace(one, train_loss=factor * one.train_loss, test_loss=factor * one.test_loss)
                for one in outcomes[run._replace(method="gbm")]
            ]
    return replace(stored.table, outcomes=outcomes)


def test_angles(stored):
    for cosine, verdict in ((0.99, claims.HOLDS), (0.5, claims.FAILS)):
        found = [replace(a, noise=cosine, smallest_gbm=cosine, smallest_agbm=cosine) for a in stored.angles]
        assert set(decided(claims.of_angles(found, [])).values()) == {verdict}


@pytest.mark.parametrize(
    ("above", "factor", "bound", "verdicts"),
    [
        (0, 0.5, 1e-9, [claims.HOLDS, claims.HOLDS]),
        (0, 2.0, 1e99, [claims.NOT_CONTRADICTED, claims.FAILS]),
        (3, 2.0, 1e99, [claims.FAILS, claims.FAILS]),
    ],
)
def test_theorem_41(stored, above, factor, bound, verdicts):
    tracks = []
    for track in stored.theory:
        gaps = [factor * gap for gap in track.columns["gap_of_gbm"]]
        columns = dict(track.columns) | {"gap": gaps, "bound": [bound] * len(gaps)}
        tracks.append(replace(track, n_above_bound=above, columns=columns))
    runs = [
        replace(run, needed=[9] * 3 if (run.method == "gbm") == (factor > 1.0) else [99] * 3) for run in stored.restarts
    ]
    assert list(decided(claims.of_theory(tracks, runs)).values())[:2] == verdicts


def test_words_about_the_proof(stored):
    """What the section says in words of all runs."""
    for track in stored.theory:
        if track.admissible:
            assert track.n_above_bound == track.n_above_sum == 0
            assert max(track.columns["error_terms"]) <= 0.0
            assert track.columns["gap"][-1] > track.columns["gap_of_gbm"][-1]
        elif track.n_above_sum is not None:
            assert track.n_above_sum == 0
            assert track.columns["error_terms"][-1] > 0.0
    assert max(claims.theory_sections.halved(stored.restarts)) <= 0.5


def test_restarts(stored):
    slow = [
        replace(
            run,
            ratios=[0.9 for _ in run.ratios],
            diverged=True,
            needed=run.needed if run.method == "gbm" else [None] * 3,
        )
        for run in stored.restarts
    ]
    assert list(decided(claims.of_restarts(slow)).values()) == [claims.FAILS, claims.HOLDS, claims.FAILS, claims.FAILS]
    fast = [replace(run, diverged=False, needed=[9] * 3 if run.method == "gbm" else [1] * 3) for run in stored.restarts]
    assert list(decided(claims.of_restarts(fast)).values()) == [claims.HOLDS, claims.FAILS, claims.HOLDS, claims.HOLDS]


def test_curves(stored):
    good = with_curves(
        stored,
        lambda c: replace(
            c, train=[1e-3] * len(c.train), test=[1e-3] * len(c.test), diverged=0, lowest_test=1e-3, last_train=1e-3
        ),
    )
    found = decided(claims.of_curves(good))
    assert found["AGBM is not too sensitive to γ between 0 and 1"] == claims.HOLDS
    assert found["AGBM trains faster than GBM for all η"] == claims.HOLDS
    assert found["AGBM's lowest test loss is comparable to GBM's"] == claims.HOLDS
    assert found["for smaller η VAGBM is fast at first, then gets stuck or diverges"] == claims.FAILS
    bad = with_curves(
        stored, lambda c: replace(c, lowest_test=99.0, last_train=99.0, diverged=5, trees_at_lowest=10**6)
    )
    found = decided(claims.of_curves(bad))
    assert found["AGBM trains faster than GBM for all η"] == claims.FAILS
    assert found["AGBM overfits at an earlier stage"] == claims.FAILS
    assert found["AGBM's lowest test loss is comparable to GBM's"] == claims.FAILS


def test_table(stored):
    for factor in (0.9, 1.1):
        found = list(decided(claims.of_table(with_losses(stored, "agbm", factor))).values())
        expected = (
            [claims.HOLDS, claims.HOLDS, claims.FAILS] if factor < 1.0 else [claims.FAILS, claims.FAILS, claims.HOLDS]
        )
        assert found[:3] == expected
        vanilla = list(decided(claims.of_table(with_losses(stored, "vagbm", factor))).values())
        assert vanilla[3] == (claims.HOLDS if factor < 1.0 else claims.FAILS)


def test_all_claims_are_decided(sections):
    (grid,) = sections[0].grids
    failed = document.Grid("", ["", "verdict"], [["", claims.FAILS]])
    assert len(grid.rows) == 20
    assert "| **✓ holds** |" in document.to_markdown(sections[:1], "Title")
    assert "| **✗ does not hold** |" in document.to_markdown([document.Section("", grids=[failed])], "Title")
    assert {verdict for _, _, verdict, _ in grid.rows} <= {
        claims.HOLDS,
        claims.IN_PART,
        claims.FAILS,
        claims.NOT_CONTRADICTED,
    }


def test_links_have_targets(sections):
    targets = [section.id for section in flat(sections)]
    assert len(set(targets)) == len(targets)
    links = re.findall(r"\]\(#([^)]+)\)", document.to_markdown(sections, "Title"))
    assert set(links) <= set(targets)
    assert len(links) > 15


class Balance(HTMLParser):
    """Notes the open elements, and fails where an end tag closes another."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attributes):
        if tag not in ("meta", "br", "img", "source", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_whole_page_is_well_formed(sections):
    page = Balance()
    page.feed(document.to_html(sections, write.TITLE, FOLDER))
    page.close()
    assert page.open == []
