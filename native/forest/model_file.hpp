// The container of model files: a header, a table of sections, and the sections, all little-endian. Every number is
// checked before it is used. docs/model-file.md has the bytes.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "tree/tree.hpp"

namespace agbm {

static_assert(std::endian::native == std::endian::little, "model files are mapped without conversion: little-endian");

constexpr char kModelFileMagic[8] = {'A', 'G', 'B', 'M', '\r', '\n', '\x1a', '\n'};
constexpr std::uint32_t kModelFileVersion = 1;
constexpr std::uint32_t kMaxSections = 256;
constexpr std::size_t kSectionAlignment = 64;

enum class ElementType : std::uint32_t { kByte = 1, kInt32 = 2, kInt64 = 3, kUint64 = 4, kFloat64 = 5, kNode = 6 };

struct FileHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t n_sections;
  std::uint64_t file_size;
  std::uint32_t table_checksum;
  std::uint8_t reserved[36];
};
static_assert(sizeof(FileHeader) == 64);

struct SectionEntry {
  char name[32];
  std::uint32_t type;
  std::uint32_t checksum;
  std::uint64_t offset;
  std::uint64_t count;  // of elements
  std::uint64_t reserved;
};
static_assert(sizeof(SectionEntry) == 64);

struct Section {
  std::string name;
  ElementType type;
  std::uint32_t checksum;
  std::uint64_t offset;
  std::uint64_t count;
};

struct ModelFileTable {
  std::uint32_t checksum;  // of the entries; the caller has to compare it
  std::vector<Section> sections;
};

inline std::size_t element_size(ElementType type) {
  switch (type) {
    case ElementType::kByte: return 1;
    case ElementType::kInt32: return 4;
    case ElementType::kInt64:
    case ElementType::kUint64:
    case ElementType::kFloat64: return 8;
    case ElementType::kNode: return sizeof(NodeRecord);
  }
  throw std::invalid_argument("type: unknown element type");
}

inline Section read_section(const SectionEntry& entry, std::uint64_t begin, std::uint64_t file_size) {
  const char* end = std::find(entry.name, entry.name + sizeof entry.name, '\0');
  const std::string name(entry.name, end);
  const auto printable = [](char c) { return c > ' ' && c < '\x7f'; };
  if (name.empty() || !std::all_of(name.begin(), name.end(), printable) ||
      !std::all_of(end, entry.name + sizeof entry.name, [](char c) { return c == '\0'; })) {
    throw std::invalid_argument("name: the name of a section is not printable ASCII");
  }
  if (entry.type < 1 || entry.type > 6) throw std::invalid_argument("type: section " + name + " has an unknown type");
  const ElementType type{entry.type};
  if (entry.reserved != 0) throw std::invalid_argument("reserved: section " + name + " has bytes that must be zero");
  if (entry.offset % kSectionAlignment != 0) throw std::invalid_argument("offset: section " + name + " is not aligned");
  if (entry.offset < begin || entry.offset > file_size) {
    throw std::invalid_argument("offset: section " + name + " is out of place");
  }
  if (entry.count > (file_size - entry.offset) / element_size(type)) {
    throw std::invalid_argument("count: section " + name + " ends after the end of the file");
  }
  return {name, type, entry.checksum, entry.offset, entry.count};
}

// The sections of a file, in their order. Allocates no more than the size of the file justifies.
inline ModelFileTable read_model_file(std::span<const std::uint8_t> file) {
  FileHeader header;
  if (file.size() < sizeof header) throw std::invalid_argument("size: the file is shorter than its header");
  std::memcpy(&header, file.data(), sizeof header);
  if (std::memcmp(header.magic, kModelFileMagic, sizeof header.magic) != 0) {
    throw std::invalid_argument("magic: this is not a model file");
  }
  if (header.version != kModelFileVersion) {
    throw std::invalid_argument("version: the file has format " + std::to_string(header.version) +
                                ", this library reads format " + std::to_string(kModelFileVersion) +
                                (header.version > kModelFileVersion ? "; a newer agbm can read it" : ""));
  }
  if (header.file_size != file.size()) {
    throw std::invalid_argument("size: the file has " + std::to_string(file.size()) + " bytes, but its header says " +
                                std::to_string(header.file_size));
  }
  if (std::any_of(std::begin(header.reserved), std::end(header.reserved), [](auto byte) { return byte != 0; })) {
    throw std::invalid_argument("reserved: the header has bytes that must be zero");
  }
  if (header.n_sections > kMaxSections) {
    throw std::invalid_argument("n_sections: " + std::to_string(header.n_sections) + " is more than " +
                                std::to_string(kMaxSections));
  }
  std::uint64_t end = sizeof header + header.n_sections * sizeof(SectionEntry);
  if (end > file.size()) throw std::invalid_argument("size: the file ends within the table of sections");
  ModelFileTable table{header.table_checksum, {}};
  for (std::uint32_t k = 0; k < header.n_sections; ++k) {
    SectionEntry entry;
    std::memcpy(&entry, file.data() + sizeof header + k * sizeof entry, sizeof entry);
    table.sections.push_back(read_section(entry, end, file.size()));
    const Section& section = table.sections.back();
    end = section.offset + section.count * element_size(section.type);
    for (std::uint32_t j = 0; j < k; ++j) {
      if (table.sections[j].name == section.name)
        throw std::invalid_argument("name: two sections are named " + section.name);
    }
  }
  return table;
}

}  // namespace agbm
