// Exact sums for Python, and the weights of rows in them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/exact_sum.hpp"
#include "bindings/python_arrays.hpp"

namespace agbm {

// A sum in the form for Python: the multiple of 2^-1074 as bytes, and the sum of all numbers that are not finite.
inline nb::tuple to_python(const ExactSum& sum) {
  const std::string bytes = sum.little_endian();
  return nb::make_tuple(nb::bytes(bytes.data(), bytes.size()), sum.not_finite());
}

using Weights = std::optional<Vector<double>>;

inline const double* checked(const Weights& weight, std::size_t n_rows) {
  require(!weight || weight->size() == n_rows, "weight: must have one entry for each row");
  return weight ? weight->data() : nullptr;
}

}  // namespace agbm
