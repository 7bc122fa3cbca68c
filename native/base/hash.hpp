// A hash of numbers.
#pragma once

#include <cstdint>

namespace agbm {

// The finaliser of splitmix64. Random choices are hashes of the numbers of nodes and features, so they do not depend on
// the order in which they are made. Digests of tables are sums of hashes.
inline std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace agbm
