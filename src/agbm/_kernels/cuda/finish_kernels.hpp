// Kernels that turn scores into predictions. Scores of a row and output are start[output] + f[output * n_rows + row];
// results of several columns are (row, column).
#pragma once

#include "cuda/block.hpp"
#include "formulas/elementary.hpp"
#include "formulas/links.hpp"
#include "formulas/portable.hpp"

// Predicted numbers; f has one output.
extern "C" __global__ void agbm_predicted_values(long long link, const double* start, const double* f,
                                                 long long n_outputs, double* out, long long n_rows) {
  if (n_outputs != 1) return;
  for (long long i = agbm::first_item(); i < n_rows; i += agbm::n_workers()) {
    out[i] = agbm::inverse_link(static_cast<agbm::Link>(link), start[0] + f[i]);
  }
}

// Probabilities of two classes; f has one output.
extern "C" __global__ void agbm_two_probabilities(long long link, const double* start, const double* f,
                                                  long long n_outputs, double* out, long long n_rows) {
  if (n_outputs != 1) return;
  for (long long i = agbm::first_item(); i < n_rows; i += agbm::n_workers()) {
    const double second = agbm::inverse_link(static_cast<agbm::Link>(link), start[0] + f[i]);
    out[2 * i] = 1.0 - second;
    out[2 * i + 1] = second;
  }
}

// Probabilities of more classes.
extern "C" __global__ void agbm_softmax(long long, const double* start, const double* f, long long n_classes,
                                        double* out, long long n_rows) {
  for (long long i = agbm::first_item(); i < n_rows; i += agbm::n_workers()) {
    double* const of_row = out + i * n_classes;
    double largest = start[0] + f[i], sum = 0.0;
    for (long long k = 1; k < n_classes; ++k) largest = agbm::at_least(largest, start[k] + f[k * n_rows + i]);
    for (long long k = 0; k < n_classes; ++k) {
      of_row[k] = agbm::bounded_exp((start[k] + f[k * n_rows + i]) - largest);
      sum += of_row[k];
    }
    for (long long k = 0; k < n_classes; ++k) of_row[k] /= sum;
  }
}

// The scores of all outputs.
extern "C" __global__ void agbm_scores(long long, const double* start, const double* f, long long n_outputs,
                                       double* out, long long n_rows) {
  for (long long i = agbm::first_item(); i < n_rows; i += agbm::n_workers()) {
    for (long long k = 0; k < n_outputs; ++k) out[i * n_outputs + k] = start[k] + f[k * n_rows + i];
  }
}

// The number of the most probable class, the first of equal ones; with one score, the second class if it is positive.
extern "C" __global__ void agbm_most_probable(long long, const double* start, const double* f, long long n_outputs,
                                              long long* out, long long n_rows) {
  for (long long i = agbm::first_item(); i < n_rows; i += agbm::n_workers()) {
    double largest = start[0] + f[i];
    long long best = n_outputs == 1 && largest > 0.0 ? 1 : 0;
    for (long long k = 1; k < n_outputs; ++k) {
      const double score = start[k] + f[k * n_rows + i];
      best = score > largest ? k : best;
      largest = agbm::at_least(largest, score);
    }
    out[i] = best;
  }
}
