// Gauss-Legendre quadrature.
#pragma once

#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

namespace agbm {

// Gauss-Legendre points and weights: exact integrals over (0, 1) of polynomials up to degree 2 n - 1.
struct Quadrature {
  std::vector<double> point, rest, weight;  // rest: 1 - point, accurate even if it is small

  explicit Quadrature(int n) : point(n), rest(n), weight(n) {
    for (int i = 0; i < (n + 1) / 2; ++i) {
      double angle = std::numbers::pi * (4.0 * i + 3.0) / (4.0 * n + 2.0), slope = 1.0;
      for (int step = 0; step < 8; ++step) {  // Newton steps; the initial angle is accurate to 1 / n^2
        const auto [last, before] = legendre(n, angle);
        slope = n * (before - std::cos(angle) * last) / std::sin(angle);
        if (step < 7) angle += last / slope;
      }
      const double low = std::sin(angle / 2.0), high = std::cos(angle / 2.0);
      rest[i] = point[n - 1 - i] = low * low;
      point[i] = rest[n - 1 - i] = high * high;
      weight[i] = weight[n - 1 - i] = 1.0 / (slope * slope);
    }
  }

 private:
  // Legendre polynomials of degree n and n - 1 at x = cos(angle), computed from their differences, which are accurate
  // even if x is near 1.
  static std::pair<double, double> legendre(int n, double angle) {
    const double low = std::sin(angle / 2.0), below_one = 2.0 * low * low;
    double value = 1.0, change = 0.0, before = 1.0;
    for (int k = 0; k < n; ++k) {
      change = (k * change - (2.0 * k + 1.0) * below_one * value) / (k + 1.0);
      before = value;
      value += change;
    }
    return {value, before};
  }
};

}  // namespace agbm
