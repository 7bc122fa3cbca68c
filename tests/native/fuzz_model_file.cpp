// What a stranger's model file goes through in native code: the container, the forest's checks, predictions, contributions.
// Checksums are compared in Python, so that changed files get as far as they can here.
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "forest/model_file.hpp"
#include "forest/predict.hpp"
#include "forest/shap.hpp"

namespace {

using namespace agbm;

constexpr int kFeatures = 4;
constexpr int kColumns = 3;
constexpr std::size_t kRows = 40;  // more than are walked one by one, so that trees are coded as well

template <class T>
const std::vector<T>& rows() {
  static const std::vector<T> all = [] {
    const T values[] = {T(0),
                        T(-1.5),
                        T(2),
                        T(70),
                        T(1e30),
                        std::numeric_limits<T>::quiet_NaN(),
                        std::numeric_limits<T>::infinity(),
                        -std::numeric_limits<T>::infinity(),
                        T(-0.0),
                        T(0.3)};
    std::vector<T> numbers(kRows * kFeatures);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = values[(7 * i + i / 10) % std::size(values)];
    return numbers;
  }();
  return all;
}

template <class T>
std::vector<T> content(std::span<const std::uint8_t> file, const ModelFileTable& table, const char* name,
                       ElementType type) {
  for (const Section& section : table.sections) {
    if (section.name != name) continue;
    if (section.type != type) throw std::invalid_argument("type");
    std::vector<T> elements(section.count * element_size(type) / sizeof(T));
    if (!elements.empty()) std::memcpy(elements.data(), file.data() + section.offset, elements.size() * sizeof(T));
    return elements;
  }
  throw std::invalid_argument("sections");
}

Forest read_forest(std::span<const std::uint8_t> file) {
  const ModelFileTable table = read_model_file(file);
  ForestArrays arrays;
  arrays.n_features = kFeatures;
  arrays.n_columns = kColumns;
  arrays.roots = content<std::int32_t>(file, table, "roots", ElementType::kInt32);
  arrays.first_column = content<std::int32_t>(file, table, "first_column", ElementType::kInt32);
  arrays.take_nodes(content<std::uint8_t>(file, table, "nodes", ElementType::kNode));
  arrays.category_words = content<std::uint64_t>(file, table, "category_words", ElementType::kUint64);
  arrays.category_start = content<std::int64_t>(file, table, "category_start", ElementType::kInt64);
  arrays.values = content<double>(file, table, "folded_value", ElementType::kFloat64);
  arrays.n_values = static_cast<int>(arrays.values.size() / std::max<std::size_t>(arrays.nodes.size(), 1));
  return Forest(std::move(arrays));
}

template <class T>
void predict(const Forest& forest) {
  for (std::size_t n_rows : {std::size_t{3}, kRows}) {  // walked, and coded
    std::vector<double> out(n_rows * kColumns, 0.0);
    forest.add_predictions(rows<T>().data(), n_rows, kFeatures, 1, out.data(), 1);
    for (double x : out) {
      if (std::isnan(x)) __builtin_trap();  // sums of finite numbers; they may leave the range, but not both ways here
    }
  }
}

void explain(const Forest& forest) {
  std::vector<double> out(kRows * kColumns * (kFeatures + 1), 0.0);
  Contributions(forest).add(rows<double>().data(), kRows, kFeatures, 1, out.data(), 1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const Forest forest = read_forest({data, size});
    predict<float>(forest);
    predict<double>(forest);
    explain(forest);
  } catch (const std::invalid_argument&) {
    return 0;  // a rule was broken, and said so
  }
  return 0;
}
