// Cox's partial likelihood: at each event, the rows at risk are those whose times are not before it.
//
// Sums over rows with the same time are sums of integers, so they do not depend on the order of the rows. Everything
// else is summed over times in their order.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/exact_sum.hpp"
#include "base/parallel.hpp"
#include "formulas/elementary.hpp"
#include "formulas/loss_rows.hpp"

namespace agbm {

// A sum of numbers between -1 and 1 in fixed point with 90 bits, in three integers that have room for carries.
class FixedSum {
 public:
  static constexpr double kQuantum = 0x1p-90;

  void add(double x) {
    for (std::int64_t& digit : digits_) {
      x *= kBase;
      const double whole = std::trunc(x);  // exact, also for the negative errors of products
      digit += static_cast<std::int64_t>(whole);
      x -= whole;
    }
  }
  // x times weight, without rounding the product.
  void add_product(double x, double weight) {
    double product = x, cut_off = 0.0;
    multiply_exactly(&product, &weight, &cut_off, 1);
    add(product);
    add(cut_off);
  }
  double rounded() const {
    std::int64_t carry = 0, normal[kDigits] = {};
    for (int i = kDigits - 1; i >= 0; --i) {
      const std::int64_t total = digits_[i] + carry;
      carry = i > 0 ? total >> kDigitBits : 0;
      normal[i] = i > 0 ? total & ((std::int64_t{1} << kDigitBits) - 1) : total;
    }
    return static_cast<double>(normal[0]) * 0x1p-30 +
           (static_cast<double>(normal[1]) * 0x1p-60 + static_cast<double>(normal[2]) * 0x1p-90);
  }

 private:
  static constexpr int kDigits = 3, kDigitBits = 30;
  static constexpr double kBase = 0x1p30;
  std::int64_t digits_[kDigits] = {};
};

// Rows by time, the latest first. Times are numbered in this order.
struct TimeOrder {
  const std::uint32_t* rows;     // rows in the order of their times
  const std::uint32_t* first;    // for each time, the position of its first row; then the number of rows
  const std::uint32_t* time_of;  // the number of the time of each row
  std::size_t n_times, n_rows;
};

class CoxLoss {
 public:
  CoxLoss(const TimeOrder& order, const double* lower, const double* upper, const double* f, const double* weight,
          bool efron, int n_threads)
      : order_(order), lower_(lower), upper_(upper), f_(f), weight_(weight), efron_(efron), n_threads_(n_threads) {
    finite_ = true;
    for (std::size_t i = 0; i < order.n_rows; ++i) {
      largest_ = std::max(largest_, f[i]);
      finite_ = finite_ && std::isfinite(f[i]);
    }
    if (!finite_) return;
    for (std::size_t i = 0; weight != nullptr && i < order.n_rows; ++i) {
      while (unit_ < weight[i]) unit_ *= 2.0;
    }
    relative_.resize(order.n_rows);
    parallel_rows(order.n_rows, n_threads, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) relative_[i] = bounded_exp(f_[i] - largest_);
    });
    times_.resize(order.n_times);
    add_up_times();
  }

  void fill(Quantity quantity, double* out) const {
    if (!finite_) return std::fill(out, out + order_.n_rows, std::numeric_limits<double>::quiet_NaN());
    parallel_rows(order_.n_rows, n_threads_, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) out[i] = of_row(quantity, i);
    });
  }

  // For each time, the latest first: the increase of Breslow's estimate of the cumulative hazard of a row with score 0.
  void hazards(double* out) const {
    for (std::size_t t = 0; t < order_.n_times; ++t) out[t] = times_[t].hazard * bounded_exp(-largest_);
  }

 private:
  // Sums over the terms of the events at a time; a term is an event with the total of the rows at risk that it has.
  // `own` is the part that an event at this time does not have, because Efron's terms take out a part of the events.
  struct Time {
    double log_risk = 0.0, hazard = 0.0, square = 0.0, own_hazard = 0.0, own_square = 0.0;
    double total_hazard = 0.0, total_square = 0.0;  // of this time and all earlier ones
  };

  bool has_event(std::size_t i) const { return lower_[i] == upper_[i]; }
  double weight(std::size_t i) const { return weight_ == nullptr ? 1.0 : weight_[i]; }

  double of_row(Quantity quantity, std::size_t i) const {
    const Time& time = times_[order_.time_of[i]];
    const bool event = has_event(i);
    if (quantity == Quantity::kValue) return event ? largest_ + time.log_risk - f_[i] : 0.0;
    const double e = relative_[i], hazard = e * (time.total_hazard - (event ? time.own_hazard : 0.0));
    const double residual = (event ? 1.0 : 0.0) - hazard;
    if (quantity == Quantity::kNegativeGradient) return residual;
    const double square = e * e * (time.total_square - (event ? time.own_square : 0.0));
    return for_steps(hazard - square, residual, kLongestLogStep);
  }

  void add_up_times() {
    FixedSum at_risk;
    for (std::size_t t = 0; t < order_.n_times; ++t) {
      FixedSum tied, of_events;
      std::size_t n_events = 0;
      for (std::size_t k = order_.first[t]; k < order_.first[t + 1]; ++k) {
        const std::size_t i = order_.rows[k];
        const double share = weight(i) / unit_;
        at_risk.add_product(relative_[i], share);
        if (!has_event(i)) continue;
        ++n_events;
        of_events.add(share);
        if (efron_) tied.add_product(relative_[i], share);
      }
      if (n_events > 0) times_[t] = of_events_at(n_events, of_events.rounded(), at_risk.rounded(), tied.rounded());
    }
    double hazard = 0.0, square = 0.0;
    for (std::size_t t = order_.n_times; t-- > 0;) {
      times_[t].total_hazard = hazard += times_[t].hazard;
      times_[t].total_square = square += times_[t].square;
    }
  }

  // All sums are in units of unit_.
  Time of_events_at(std::size_t n_events, double of_events, double at_risk, double tied) const {
    Time time;
    const std::size_t n_terms = efron_ ? n_events : 1;
    const double of_term = of_events / static_cast<double>(n_terms);
    for (std::size_t l = 0; l < n_terms; ++l) {
      const double left_out = static_cast<double>(l) / static_cast<double>(n_terms), kept = 1.0 - left_out;
      const double inverse = 1.0 / at_least(at_risk - left_out * tied, FixedSum::kQuantum);
      time.log_risk -= positive_log(inverse / unit_);
      time.hazard += of_term * inverse;
      time.square += of_term * inverse * inverse / unit_;
      time.own_hazard += left_out * (of_term * inverse);
      time.own_square += (1.0 - kept * kept) * (of_term * inverse * inverse / unit_);
    }
    time.log_risk /= static_cast<double>(n_terms);
    return time;
  }

  TimeOrder order_;
  const double *lower_, *upper_, *f_, *weight_;
  bool efron_, finite_ = true;
  int n_threads_;
  double largest_ = -std::numeric_limits<double>::infinity();
  double unit_ = 1.0;             // a power of two, at least the largest weight
  std::vector<double> relative_;  // exp(f - largest)
  std::vector<Time> times_;
};

}  // namespace agbm
