// The integers that rows become in sums.
#pragma once

#include "formulas/portable.hpp"

namespace agbm {

// round(x * scale) for |x * scale| < 2^51: adding 1.5 * 2^52 leaves the integer in the low bits. Ties go to even.
AGBM_INLINE inline Int64 round_scaled(double x, double scale) {
  constexpr double magic = 6755399441055744.0;
  return bit_cast<Int64>(x * scale + magic) - bit_cast<Int64>(magic);
}

// What a row adds to a channel of a histogram cell: its number, shifted by the bits of the count, and a count of one, if
// the channel has counts.
AGBM_INLINE inline Int64 packed_number(double x, double scale, int count_bits, bool counts) {
  return static_cast<Int64>(static_cast<UInt64>(round_scaled(x, scale)) << count_bits) + (counts ? 1 : 0);
}

// The bits of a number, such that their order is that of the numbers.
AGBM_INLINE inline UInt64 ordered_bits(double x) {
  const UInt64 bits = bit_cast<UInt64>(x + 0.0);  // -0 becomes 0
  return bits >> 63 ? ~bits : bits | UInt64{1} << 63;
}

}  // namespace agbm
