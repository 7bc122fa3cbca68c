// Bindings of the container of model files.
#include "forest/model_file.hpp"

#include <cstdint>

#include "bindings/bindings.hpp"
#include "bindings/python_arrays.hpp"

namespace agbm {
namespace {

// The table of a model file: its checksum, and (name, type, checksum, offset, count) of every section.
nb::tuple model_file_table(const Vector<std::uint8_t>& file) {
  const ModelFileTable table = read_model_file({file.data(), file.size()});
  nb::list sections;
  for (const Section& s : table.sections) {
    sections.append(nb::make_tuple(s.name, static_cast<std::uint32_t>(s.type), s.checksum, s.offset, s.count));
  }
  return nb::make_tuple(table.checksum, sections);
}

}  // namespace

void bind_model_file(nb::module_& m) {
  m.def("model_file_table", &model_file_table, "file"_a.noconvert(),
        "The checksum of a model file's table, and (name, type, checksum, offset, count) of every section.");
}

}  // namespace agbm
