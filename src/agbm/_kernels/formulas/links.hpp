// Inverse links: from scores to predictions.
#pragma once

#include "formulas/elementary.hpp"
#include "formulas/portable.hpp"

namespace agbm {

// Links of single scores, and of the scores of all classes. The numbers are known to Python: LINKS in finish.py.
enum class Link { kIdentity, kExp, kSigmoid, kSigmoidOfDouble, kSoftmax };

// The result for a single score.
AGBM_INLINE inline double inverse_link(Link link, double f) {
  switch (link) {
    case Link::kExp: return bounded_exp(f);
    case Link::kSigmoid: return sigmoid(f);
    case Link::kSigmoidOfDouble: return sigmoid(2.0 * f);
    default: return f;
  }
}

}  // namespace agbm
