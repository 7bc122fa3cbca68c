"""Tests that are not a part of `make test-fast`.

Those that took longest by `pytest --durations=0`, with all parameters of a test taken together, and whatever uses a
browser or a cluster, runs documents or examples, or needs many processes.
"""

from collections.abc import Collection
from pathlib import Path

FIXTURES = {"browser", "cluster"}
"""Tests that use one of them."""

FILES = {
    "distributed/test_dask.py",
    "storage/test_hostile_files.py",
    "storage/test_saving.py",
    "test_docs.py",
    "test_examples.py",
    "test_serving.py",
    "test_threads.py",
}
"""Whole files below the folder tests."""

TESTS = {
    "cli/test_cli.py": {
        "TestCompare::test_all_are_evaluated_on_the_same_rows",
        "TestCompare::test_table_and_page",
        "TestCompare::test_too_large_for_memory",
        "TestEnds::test_a_closed_standard_output",
        "TestEnds::test_as_a_process",
        "TestEnds::test_letters_that_a_terminal_has_not",
        "TestLooking::test_export",
        "TestLooking::test_notes_of_strangers_are_only_shown",
        "TestPredict::test_kept_columns_are_copied_exactly",
        "TestPredict::test_mistakes",
        "TestPredict::test_predictions_are_those_of_the_model",
        "TestTrain::test_a_class_of_one_row",
        "TestTrain::test_mistakes_are_said_in_one_line",
        "TestTrain::test_quiet_shows_no_progress",
        "TestTrain::test_reading_in_pieces_gives_the_same_bits",
        "TestTrain::test_task",
        "TestTrain::test_what_is_inferred_is_shown_and_what_is_said_is_true",
        "TestTune::test_search_goes_on_and_says_what_it_gains",
    },
    "cli/test_files.py": {
        "test_a_csv_column_is_what_all_of_its_values_are",
    },
    "cli/test_paths.py": {
        "TestNothingIsOverwritten::test_refused_before_anything_is_read",
        "TestPipes",
        "TestWhatCannotBeWrittenIsSaidFirst::test_by_every_command",
    },
    "cli/test_text_numbers.py": {
        "TestTraining",
    },
    "core/test_boosting.py": {
        "test_agbm_is_algorithm_2",
        "test_agbm_with_weights_that_fade",
        "test_agbmr_restarts_as_its_option_says",
        "test_option_1_halves_the_gap_at_every_restart",
        "test_the_rate_is_accelerated",
        "test_theorem_4_1_holds_at_every_iteration",
        "test_vagbm_is_the_appendix",
        "test_weights_that_fade",
        "test_weights_that_fade_seen_from_ahead",
    },
    "core/test_ensemble.py": {
        "test_early_stopping_returns_the_best_iteration_exactly",
        "test_staged_prediction_is_the_model_trained_for_fewer_iterations",
        "test_the_weights_of_the_last_iteration_are_found_without_a_replay",
    },
    "core/test_learners.py": {
        "test_every_learner_with_every_method",
    },
    "core/test_losses.py": {
        "TestKernels::test_against_the_twin",
    },
    "core/test_sums.py": {
        "test_inner_products_round_each_row_and_nothing_else",
        "test_order_partition_and_threads_do_not_matter",
        "test_the_total_of_a_loss",
    },
    "core/test_vectors.py": {
        "test_all_instructions_give_the_same_bits",
    },
    "core/test_weights.py": {
        "TestOrder::test_class_weights",
        "TestOrder::test_relative_weights",
        "TestRepetition::test_class_weights",
        "TestRepetition::test_losses",
        "TestScale::test_the_unit_of_relative_weights_does_not_matter",
    },
    "data/test_blocks.py": {
        "TestDatasets::test_parquet",
        "TestDatasets::test_validation",
        "TestErrors::test_a_full_disk",
        "TestGoingOn",
        "TestPasses::test_tables_of_all_kinds",
        "TestSameBits",
        "test_datasets_are_imported_by_those_who_use_them",
        "test_memory_is_that_of_the_bins",
    },
    "data/test_hold_out.py": {
        "TestCommandsUseTheSameRows::test_in_memory_and_in_pieces",
    },
    "data/test_tables.py": {
        "TestCategories::test_any_number_of_categories",
        "TestCategories::test_values_that_mostly_do_not_come_again",
        "TestSameModelFromEveryTable",
        "TestSparse",
    },
    "distributed/test_cluster.py": {
        "test_catching_up_does_not_hoard",
        "test_categories",
        "test_leaves_that_are_quantiles",
        "test_line_search",
        "test_methods",
        "test_quantiles_of_labels_that_are_mostly_equal",
        "test_quantiles_of_several_outputs",
        "test_random_cuts_and_troubles",
        "test_restarts",
        "test_schedules",
        "test_several_outputs",
        "test_shards_do_not_hoard",
        "test_trees_grown_from_sums_equal_those_grown_on_rows",
        "test_variants",
        "test_weights",
    },
    "export/test_lightgbm.py": {
        "test_any_categories",
        "test_lightgbm_predicts_the_same",
    },
    "export/test_onnx.py": {
        "test_any_table",
        "test_onnxruntime_predicts_the_same",
    },
    "export/test_text.py": {
        "test_boxes_do_not_overlap",
        "test_names_of_any_kind",
        "test_the_picture_has_every_node_and_edge",
        "test_what_is_printed_leads_to_the_scores",
    },
    "export/test_treelite.py": {
        "test_treelite_predicts_the_same",
    },
    "export/test_view.py": {
        "test_refusals_say_why",
        "test_the_questions_lead_to_the_scores",
    },
    "paper/test_paper.py": {
        "TestCommand::test_twice_the_same",
        "TestPage::test_parts_come_together",
        "TestProof::test_the_optimum",
        "TestProtocol::test_draws_follow_the_number_of_parameters",
        "TestProtocol::test_one_search_serves_all_numbers_of_trees",
        "TestTable::test_any_number_of_processes",
    },
    "report/test_report.py": {
        "TestFile",
        "TestStrangers",
    },
    "storage/test_checkpoint.py": {
        "TestFiles::test_bytes_that_were_changed_or_cut_off",
        "TestFiles::test_numbers_that_make_no_forest",
        "TestGoingOn::test_same_bits_as_a_run_that_was_never_interrupted",
        "test_killed_at_any_moment",
    },
    "storage/test_identity.py": {
        "TestResuming::test_init_that_is_fitted_again",
        "test_nested_too_deeply",
        "test_other_processes",
    },
    "storage/test_model_file.py": {
        "TestFuzzing",
        "TestRoundTrip::test_classes",
        "TestRoundTrip::test_loading_in_a_process_of_its_own",
        "TestRoundTrip::test_losses",
        "TestRoundTrip::test_methods",
        "TestRoundTrip::test_names_and_categories_have_no_limit",
        "TestRoundTrip::test_parameters",
        "TestRoundTrip::test_training_goes_on",
        "TestRulesOfModels",
    },
    "study/test_comparison.py": {
        "test_curves_are_of_one_quantity_and_lead_to_the_model",
        "test_every_kind_of_table_gives_the_same",
        "test_peers_are_found_without_importing_them",
    },
    "study/test_evaluation.py": {
        "test_area_under_roc_with_ties",
        "test_intervals_hold_the_truth_in_95_percent_of_samples",
        "test_many_unknown_labels_are_counted",
    },
    "study/test_suite.py": {"test_command"},
    "study/test_tuning.py": {
        "test_a_killed_search_goes_on",
        "test_hopeless_trials_are_given_up",
        "test_same_seed_same_search_also_in_parts",
        "test_the_default_is_first_and_the_gain_is_that_of_the_test_rows",
        "test_values_are_scored_by_their_squared_error",
    },
    "test_estimators.py": {
        "TestBadInput::test_constant_targets_are_fitted",
        "TestData::test_a_whole_weight_is_a_repeated_row",
        "TestData::test_the_scale_of_the_weights_does_not_matter",
        "TestDefault",
        "TestDivergence::test_growth_counts_from_the_lowest_loss",
        "TestGoingOn",
        "TestLosses::test_outliers_do_not_matter",
        "TestLosses::test_rates_of_very_different_size",
        "TestLosses::test_regression",
        "TestStart::test_a_given_model",
        "test_as_many_iterations_as_are_needed",
        "test_early_stopping_modes",
        "test_every_method_learns",
        "test_fit_after_fork",
        "test_gbm_is_close_to_hist_gradient_boosting",
        "test_identical_bits_for_every_n_jobs",
        "test_in_a_search",
        "test_interrupt_between_trees",
        "test_interrupt_in_the_middle_of_a_tree",
        "test_scikit_learn_checks",
    },
    "test_federated.py": {
        "test_a_party_that_leaves",
    },
    "test_infinity.py": {
        "test_are_the_largest_and_the_smallest_number",
        "test_partial_dependence_is_of_finite_numbers",
    },
    "test_invariances.py": {
        "TestShift::test_numbers",
        "TestUnit",
    },
    "test_life.py": {
        "TestCopies::test_pickle",
        "TestCopies::test_workers",
        "TestInspection::test_permutation_importance",
        "TestPipelines::test_in_a_pipeline",
        "TestSearches",
    },
    "test_many_outputs.py": {
        "TestClasses::test_a_thousand_classes",
        "TestClasses::test_a_whole_weight_is_a_repeated_row",
        "TestClasses::test_close_to_hist_gradient_boosting",
        "TestClasses::test_every_way_learns",
        "TestClasses::test_identical_bits_for_every_n_jobs",
        "TestClasses::test_start_models",
        "TestSeveralLabels::test_every_way_learns",
    },
    "test_migration.py": {
        "test_same_settings_similar_loss",
        "test_values_arrive_under_every_name",
    },
    "test_package.py": {
        "test_import_is_light",
    },
    "test_plot.py": {
        "test_bars_are_the_importances",
        "test_bars_lead_from_the_base_value_to_the_score",
        "test_categories_are_dots",
        "test_contributions_take_tables_of_every_kind",
        "test_features_without_names_and_with_names_of_any_kind",
        "test_lines_are_mean_predictions",
        "test_lines_are_the_history",
        "test_lines_differ_in_colour_and_in_marker",
        "test_long_names_keep_their_ends",
        "test_pictures_go_where_they_are_told",
        "test_single_rows_pairs_and_classes_are_those_of_scikit_learn",
        "test_the_star_is_where_early_stopping_took_the_model",
        "test_weights_count_in_all_panels",
    },
    "test_progress.py": {
        "test_a_bar_in_a_terminal_of_any_width",
        "test_ctrl_c_in_a_real_terminal_leaves_it_as_it_was",
        "test_one_output_of_a_notebook",
    },
    "test_sampling.py": {
        "TestDropout::test_restarts",
        "TestDropout::test_weights_are_what_the_model_predicts_with",
        "TestEverySampling",
    },
    "tree/test_constraints.py": {
        "TestMonotone::test_the_folded_model_is_monotone",
    },
    "tree/test_contributions.py": {
        "test_contributions_add_up_for_classes",
        "test_contributions_are_shapley_values",
        "test_forests_larger_than_what_is_kept_at_a_time",
        "test_long_paths_are_as_exact_as_short_ones",
        "test_plots_of_the_shap_package",
    },
    "tree/test_predict.py": {
        "test_a_predictor_gives_what_the_methods_give",
        "test_forests_predict_what_a_walk_predicts",
    },
    "tree/test_tree.py": {
        "test_a_million_rows_keep_their_precision",
        "test_bins_do_not_depend_on_the_sign",
        "test_bins_of_sparse_rows_are_those_of_dense_ones",
        "test_codes_count_the_thresholds_below",
        "test_columns_that_are_lists_give_the_trees_of_dense_ones",
        "test_features_that_cannot_split_are_left_out_of_the_same_trees",
        "test_growth_equals_the_twin",
        "test_histogram_equals_the_twin",
        "test_identical_bits_for_every_number_of_threads",
        "test_leaves_that_are_quantiles",
        "test_many_nodes_equal_the_twin",
        "test_quantiles_below_monotone_splits_keep_their_order",
        "test_repeats_equal_repeated_rows",
        "test_thresholds_and_codes_of_the_kernel_equal_the_twin",
        "test_thresholds_of_many_rows_come_from_a_sample",
    },
}
"""Tests, or classes of tests, of other files."""


def is_slow_file(path: Path) -> bool:
    """Whether all tests of a file are slow."""
    return any(path.match(f"tests/{file}") for file in FILES)


def is_slow(nodeid: str, fixtures: Collection[str]) -> bool:
    """Whether a test, known by pytest's name for it and by its fixtures, is in one of the lists."""
    file, _, name = nodeid.removeprefix("tests/").split("[")[0].partition("::")
    listed = not {name, name.split("::")[0]}.isdisjoint(TESTS.get(file, ()))
    return listed or file in FILES or not FIXTURES.isdisjoint(fixtures)
