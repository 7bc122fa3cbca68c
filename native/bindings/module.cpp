// The native module. Its bindings check shapes and values, release the GIL and let signals through.
#include "bindings/module.hpp"

NB_MODULE(_native, m) {
  nanobind::set_leak_warnings(false);  // objects that live until Python ends are no leak
  m.doc() = "Kernels of agbm: binning, tree growth, prediction, losses.";
  agbm::bind_bins(m);
  agbm::bind_tree(m);
  agbm::bind_forest(m);
  agbm::bind_vectors(m);
  agbm::bind_losses(m);
  agbm::bind_survival(m);
  agbm::bind_ranking(m);
}
