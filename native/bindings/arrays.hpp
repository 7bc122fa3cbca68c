// What all bindings share: types of arrays, their conversion, and checks of arguments.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/exact_sum.hpp"
#include "base/memory.hpp"

namespace agbm {

namespace nb = nanobind;
using namespace nb::literals;

template <class T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::device::cpu>;
template <class T>
using RowMajor = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// An array that a result is written to.
using Results = nb::ndarray<double, nb::c_contig, nb::device::cpu>;

// A NumPy array that owns its memory, moved out of a vector.
template <class T, class... Shape>
nb::ndarray<nb::numpy, T> to_numpy(std::vector<T>&& data, Shape... shape) {
  auto* owned = new std::vector<T>(std::move(data));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::ndarray<nb::numpy, T>(owned->data(), {static_cast<std::size_t>(shape)...}, owner);
}

// An uninitialised NumPy array, whose memory is reused within a run.
inline nb::ndarray<nb::numpy, double> empty(const std::vector<std::size_t>& shape) {
  struct Owned {
    double* numbers;
    std::size_t n;
  };
  const std::size_t n = std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
  auto owned = std::make_unique<Owned>(Owned{ReusedMemory::instance().take(n), n});
  double* numbers = owned->numbers;
  nb::capsule owner(owned.release(), [](void* p) noexcept {
    std::unique_ptr<Owned> dropped(static_cast<Owned*>(p));
    ReusedMemory::instance().give_back(dropped->numbers, dropped->n);
  });
  return nb::ndarray<nb::numpy, double>(numbers, shape.size(), shape.data(), owner);
}

inline void require(bool condition, const char* message) {
  if (!condition) throw std::invalid_argument(message);
}

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
