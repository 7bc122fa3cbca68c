"""Preparation of runs on blocks of rows, on this machine or on others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .._base.identity import identity_of
from .._base.types import AnyArray
from .._data.blocks import (
    BlockReader,
    Blocks,
    BlockTable,
    Gathered,
    Labelled,
    Looked,
    OneTable,
    bins_of_all,
    check_columns,
    look_at_columns,
    naming,
    places_of,
)
from .._data.crosses import Cross, with_crosses
from .._data.derivation import Derivation
from .._data.digest import RowDigest, Shape
from .._data.offsets import check_both
from .._data.profile import Profile, profile_of_sample, thinned
from .._data.reader import TableReader
from .._data.rows import Given
from .._data.tables import as_table, column_names, named_mask
from .._labels.base import Labels, StartScores
from .label_steps import (
    LabelFacts,
    before,
    begin,
    check_groups,
    digest,
    divide,
    encode_validation,
    in_shared_order,
    numbered,
    of_member,
    sample_weights_of,
    weigh,
    weigh_at_random,
)
from .planning import Request, loss_of, make_plan, tree_learner_of
from .run import Member, Run, make_members
from .sources import BlockRows, RowSource, SharedBlocks
from .views import (
    found_crosses,
    given_crosses,
    joined_rows,
    needs_audition,
    read_audition_rows,
    take_audition_rows,
)

GivenBlocks = tuple[Blocks, Given]
"""Blocks, and the vectors of all their rows, or None if the blocks contain them."""


def prepared_blocks(request: Request, source: RowSource, blocks: GivenBlocks, validation: GivenBlocks | None) -> Run:
    """A run on blocks."""
    learner = request.settings.method.learner
    if learner is not None:
        raise ValueError(f"learner={learner!r} needs all rows at once; use trees, or pass X as a table.")
    given, labelled = source.labelled(*blocks)
    reader = _reader_of(request, given)
    labelled, weighed = labelled.step(weigh, request.for_other_processes())
    request = replace(request, kind=weighed[0].kind, learned=weighed[0].learned)
    elsewhere = request.for_other_processes()
    labels, n_used = weighed[0].labels, [found.n_used for found in weighed]
    labelled, _ = labelled.step(numbered, each=before(n_used))
    if not source.in_this_process:
        labelled.step(check_groups, labels, each=labelled.numbers)
    if given.more_than_numbers and request.known is None:
        reader = _deriving(request, reader, given, labelled)
    start_scores = StartScores(request.settings.init, labels, loss_of(request, labels))
    following, weighs_validation = None, False
    if validation is not None:
        following, weighs_validation = _validation_of(request, source, validation, given, weighed)
    labelled, following = _started(labelled, following, start_scores)

    training, n_training = labelled, list(n_used)
    if following is not None:
        labelled = labelled.followed_by(following)
        n_used += [0] * (len(labelled.numbers) - len(n_used))  # some processes have validation rows only
    step = 1.0 if weighed[0].no_weights is None else weighed[0].no_weights.step
    looked = _look(request, BlockTable(labelled, n_used), reader, step)
    known = reader.with_categories(looked.categories)
    if request.known is None:
        known = _with_crosses(request, source, given.head, known, labels, labelled, n_used)

    def identity(parts: dict[str, str]) -> str:
        return identity_of(parts, _digested(request, training, n_training, reader))

    plan = make_plan(request, known, labels, start_scores.loss, weighed[0].units, validation is not None, identity)
    profile = _profile(looked, known) if source.shows_rows and not plan.is_trial else None
    looked = replace(looked, sample=with_crosses(looked.sample, known.crosses))
    bins, crowded = bins_of_all(looked, request.settings.max_bins, plan.n_threads)
    looked = replace(looked, sample=looked.sample[:0])  # frees its memory before the matrix is allocated
    data = None if plan.is_trial else _empty_digest(request, source, weighed, following, known)
    light = plan._replace(earlier=())  # it is sent to other processes
    labelled, n_train = labelled.step(divide, elsewhere, light, labels)
    in_order, _ = labelled.step(in_shared_order)
    shared = SharedBlocks(BlockTable(in_order, n_used), BlockReader(known.numbers, bins), crowded, data)

    def member(number: int) -> Member:
        rows, _ = labelled.step(of_member, number)
        rows, begun = rows.step(begin, elsewhere, light, labels, weighs_validation)
        table = BlockTable(rows, [of_process[number] for of_process in n_train])
        learner = tree_learner_of(request, plan, known, labels, sum(table.n_train), begun[0].l2, number)
        own = table.own_categories(looked, crowded, learner.max_bins, learner.min_category_rows)
        own_reader = BlockReader(known.numbers, bins.with_categories(own) if own else bins)
        digest = data if number == 0 else None
        block_rows = BlockRows(table, own_reader, labels, plan, begun[0], digest, shared)
        bound, fitter = source.bind(block_rows, learner)
        return Member(begun[0].start, bound, learner, fitter, plan.seed_of(number), plan.earlier_of(number))

    members = make_members(plan, member, range(plan.n_members) if plan.held_out else [0] * plan.n_members)
    return Run(plan, known, labels, members, (), data, request.unit, profile)


def _started(
    labelled: Labelled, following: Labelled | None, start_scores: StartScores
) -> tuple[Labelled, Labelled | None]:
    """Training and validation rows that start from the scores of an init model, if there is one."""
    if isinstance(start_scores.init, str):
        return labelled, following
    return labelled.with_start(start_scores), None if following is None else following.with_start(start_scores)


def _empty_digest(
    request: Request, source: RowSource, weighed: Sequence[LabelFacts], following: Labelled | None, reader: TableReader
) -> RowDigest | None:
    """A digest for all rows of blocks, to which none has been added; `following` are those of X_val."""
    if not source.shows_rows:
        return None
    n_given = sum(found.n_used for found in weighed)
    n_validation = 0 if following is None else sum(following.n_rows)
    first = weighed[0]
    return RowDigest.of(Shape(n_given, n_validation, first.n_labels, first.labels.n_outputs, reader.n_features))


def _profile(looked: Looked, reader: TableReader) -> Profile:
    """The profile of the columns of blocks."""
    n_rows = len(looked.sample)
    return profile_of_sample(looked.sample[thinned(n_rows)], n_rows, reader.n_columns, looked.sampled_categories)


def _reader_of(request: Request, given: Gathered) -> TableReader:
    """The reader of the columns of blocks."""
    if request.known is None:
        reader = TableReader.of_columns(request.settings.estimator, given.head)
    else:
        reader = request.known.reader
        reader.check_columns(given.head)
    if given.y is None:
        raise ValueError("y=None: pass the labels of all rows, or batches (X, y).")
    return reader


def _deriving(request: Request, reader: TableReader, given: Gathered, labelled: Labelled) -> TableReader:
    """The reader, including columns that are not numeric."""
    named = named_mask(given.head, request.settings.categorical_features)
    looks = labelled.over(look_at_columns, sample_weights_of)
    derivation = Derivation.of(looks, named)
    derivation.warn_of_unread(looks, column_names(given.head))
    return reader.with_derivation(derivation)


def _validation_of(
    request: Request,
    source: RowSource,
    validation: GivenBlocks,
    given: Gathered,
    weighed: Sequence[LabelFacts],
) -> tuple[Labelled, bool]:
    """The blocks of X_val with their labels, and whether they have weights."""
    with naming("X_val"):
        gathered, following = source.labelled(*validation, "y_val")
        check_columns(gathered.head, given.head, "X")
    check_both(given.offset is not None, gathered.offset is not None, "offset_val")
    labels, n_used = weighed[0].labels, sum(found.n_used for found in weighed)
    firsts = [n_used + sum(following.n_rows[:number]) for number in following.numbers]
    following, _ = following.step(encode_validation, labels, weighed[0].no_weights, each=firsts)
    if not source.in_this_process:
        with naming("X_val"):
            following.step(check_groups, labels, each=following.numbers)
    return following, gathered.weight is not None


def validation_blocks(request: Request, source: RowSource, validation: Given) -> GivenBlocks:
    """Blocks of validation rows, and the vectors of these unless the blocks contain them."""
    with naming("X_val"):
        found = source.blocks_of(validation)
    return (OneTable(as_table(validation.X), None), validation) if found is None else found


def _look(request: Request, table: BlockTable, reader: TableReader, step: float) -> Looked:
    known = None if request.known is None else request.known.reader.categories
    return table.look(request.settings.categorical_features, step, known, reader.derivation)


def _with_crosses(
    request: Request, source: RowSource, head: Any, reader: TableReader, labels: Labels, labelled: Labelled,
    n_used: Sequence[int],
) -> TableReader:  # fmt: skip
    """The reader of a new model, after a warning about its text columns; `head` has the columns of X."""
    named = named_mask(head, request.settings.categorical_features)
    reader.categories.warn_of_unique_text(sum(n_used), named, column_names(head))
    return reader.with_crosses(_crosses_of(request, source, as_table(head), reader, labels, labelled, n_used))


def _crosses_of(
    request: Request, source: RowSource, head: Any, reader: TableReader, labels: Labels, labelled: Labelled,
    n_used: Sequence[int],
) -> list[Cross]:  # fmt: skip
    """The crosses of a new model; `head` has the columns of X."""
    n_rows = sum(n_used)
    if not (source.shows_rows and needs_audition(request, reader, labels, head, n_rows)):
        return given_crosses(request.settings, reader, labels, head)
    sampled, found = labelled.step(take_audition_rows, labels, n_rows)
    rows = joined_rows(found, np.concatenate(sampled.over(read_audition_rows, places_of, reader)))
    return found_crosses(request, reader, labels, rows)


def _digested(request: Request, labelled: Labelled, n_used: list[int], reader: TableReader) -> Iterator[AnyArray]:
    """The arrays by which a checkpoint recognises rows: a digest of labels, categories, and a sample.

    The sample does not contain categories. Instead, each row gets a random weight, and the sums of these weights
    per category show whether the same rows have the same categories.
    """
    labelled, digests = labelled.step(digest)
    yield np.array([digests[0]], dtype=np.uint64)
    labelled, _ = labelled.step(weigh_at_random)
    looked = _look(request, BlockTable(labelled, n_used), reader, 1.0)
    yield np.array([repr(looked.categories.of)])
    yield from looked.category_weight.values()
    yield np.asarray(looked.sample, dtype=np.float64)
