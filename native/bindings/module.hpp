// The parts of the native module, one per file.
#pragma once

#include <nanobind/nanobind.h>

namespace agbm {

void bind_bins(nanobind::module_& m);
void bind_tree(nanobind::module_& m);
void bind_forest(nanobind::module_& m);
void bind_vectors(nanobind::module_& m);
void bind_losses(nanobind::module_& m);
void bind_survival(nanobind::module_& m);
void bind_ranking(nanobind::module_& m);

}  // namespace agbm
