// The layout of bin codes: in groups of columns, row after row, so that a thread reads those of a row and group at once.
#pragma once

namespace agbm {

constexpr int kGroupColumns = 16;

}  // namespace agbm
