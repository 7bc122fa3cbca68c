// Where the rows of a matrix are in vectors over rows.
//
// Members of a model that hold out different rows share one matrix of codes. Some of its rows are a ring, on which the
// rows that a member holds out are neighbours. In the vectors of a member, the ring begins with the row after them: its
// training rows come first, and those that it holds out last. All other rows are at the same place in matrix and
// vectors: those before the ring, which nobody holds out, and those after it.
#pragma once

#include "formulas/portable.hpp"

namespace agbm {

struct RowRing {
  Int64 begin = 0, end = 0;  // the rows on the ring
  Int64 first = 0;           // the one that vectors begin with

  AGBM_INLINE bool has(Int64 row) const { return row >= begin && row < end; }
  AGBM_INLINE Int64 row(Int64 position) const {
    const Int64 there = position + (first - begin);
    return !has(position) ? position : there < end ? there : there - (end - begin);
  }
  AGBM_INLINE Int64 position(Int64 row) const {
    const Int64 there = row - (first - begin);
    return !has(row) ? row : there >= begin ? there : there + (end - begin);
  }

  // Of the first positions, of which there are n, the number of those whose rows come before row `first`.
  AGBM_INLINE Int64 n_before(Int64 n) const {
    return begin == end ? 0 : begin + larger<Int64>(0, first + (n - begin) - end);
  }
  // The i-th of the rows of these positions, ascending.
  AGBM_INLINE Int64 ascending(Int64 i, Int64 n) const { return i < n_before(n) ? i : first + i - n_before(n); }
  // One more than the largest of these rows.
  AGBM_INLINE Int64 limit(Int64 n) const { return begin == end ? n : smaller<Int64>(end, first + (n - n_before(n))); }
};

}  // namespace agbm
