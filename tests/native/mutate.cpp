// A driver for the fuzz target where there is no libFuzzer: `mutate n files ...` runs the files as they are, and n changed
// copies of them, the same in every run.
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes changed(Bytes bytes, std::mt19937_64& random) {
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % std::max<std::size_t>(n, 1)); };
  const std::int64_t numbers[] = {-2, -1, 0, 1, 2, 3, 255, 256, 1 << 20, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
  for (std::size_t change = 0, n = 1 + below(4); change < n && !bytes.empty(); ++change) {
    const std::size_t at = below(bytes.size());
    switch (below(5)) {
      case 0: bytes[at] = static_cast<std::uint8_t>(random()); break;
      case 1: bytes[at] ^= static_cast<std::uint8_t>(1u << below(8)); break;
      case 2:  // numbers lie at multiples of four
        for (std::size_t k = 0, i = at / 4 * 4, number = static_cast<std::size_t>(numbers[below(std::size(numbers))]);
             k < 4 && i + k < bytes.size(); ++k) {
          bytes[i + k] = static_cast<std::uint8_t>(number >> (8 * k));
        }
        break;
      case 3:
        std::copy_n(bytes.begin() + below(at + 1), std::min<std::size_t>(8, bytes.size() - at), bytes.begin() + at);
        break;
      default:
        if (below(8) == 0) bytes.resize(at);
    }
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: mutate n files ...\n");
    return 2;
  }
  std::vector<Bytes> files;
  for (int k = 2; k < argc; ++k) {
    std::ifstream file(argv[k], std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    LLVMFuzzerTestOneInput(files.back().data(), files.back().size());
  }
  std::mt19937_64 random(0);
  const long n = std::atol(argv[1]);
  for (long k = 0; k < n; ++k) {
    Bytes bytes = changed(files[static_cast<std::size_t>(k) % files.size()], random);
    // What says how long the file is must mostly be right, or nothing else would be reached.
    if (bytes.size() >= 24 && random() % 16 != 0) {
      const std::uint64_t size = bytes.size();
      std::copy_n(reinterpret_cast<const std::uint8_t*>(&size), 8, bytes.begin() + 16);
    }
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  std::printf("%ld changed files, %ld MB at most\n", n, usage.ru_maxrss / 1024);
}
