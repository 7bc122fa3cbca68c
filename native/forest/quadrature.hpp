// Gauss-Legendre quadrature.
#pragma once

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
        const auto [low, high] = sine_and_cosine(angle / 2.0);
        const auto [last, before] = legendre(n, low);
        slope = n * (before - (1.0 - 2.0 * low * low) * last) / (2.0 * low * high);
        if (step < 7) angle += last / slope;
      }
      const auto [low, high] = sine_and_cosine(angle / 2.0);
      rest[i] = point[n - 1 - i] = low * low;
      point[i] = rest[n - 1 - i] = high * high;
      weight[i] = weight[n - 1 - i] = 1.0 / (slope * slope);
    }
  }

 private:
  // sin(x) and cos(x) by their series, for x up to about pi / 4. The C libraries of other machines, and compilers that
  // call one function for both, have other last bits.
  static std::pair<double, double> sine_and_cosine(double x) {
    const double square = x * x;
    double sine = 1.0, cosine = 1.0;
    for (int k = 20; k > 0; k -= 2) {
      sine = 1.0 - square * sine / (k * (k + 1.0));
      cosine = 1.0 - square * cosine / (k * (k - 1.0));
    }
    return {x * sine, cosine};
  }

  // Legendre polynomials of degree n and n - 1 at x = cos(angle), given low = sin(angle / 2). They are computed from
  // their differences, which are accurate even if x is near 1.
  static std::pair<double, double> legendre(int n, double low) {
    const double below_one = 2.0 * low * low;
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
