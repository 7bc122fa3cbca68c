/*
$about
This file has no dependencies, allocates no memory and can be used by several threads. Results have the same bits as
those of agbm. To declare its functions elsewhere, define ${NAME}_DECLARATIONS and include this file.
*/
#ifdef __cplusplus
extern "C" {
#endif

#define ${NAME}_N_FEATURES $n_features
#define ${NAME}_N_SCORES $n_scores
#define ${NAME}_N_PREDICTIONS $n_predictions

/* The raw scores of a row, before offsets are added. */
void ${name}_scores(const double row[${NAME}_N_FEATURES], double scores[${NAME}_N_SCORES]);

/* $what, from raw scores. */
void ${name}_finish(const double scores[${NAME}_N_SCORES], double out[${NAME}_N_PREDICTIONS]);

$declarations
#ifdef __cplusplus
}
#endif

#ifndef ${NAME}_DECLARATIONS

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

/* Fused multiply-adds and wider registers would change the last bits of results. */
#if defined(__FAST_MATH__)
#error "compile this file without -ffast-math, which changes results"
#endif
#if FLT_EVAL_METHOD == 2
#error "compile this file with SSE2 (-msse2 -mfpmath=sse): the x87 changes results"
#endif
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC push_options
#pragma GCC optimize("fp-contract=off")
#elif defined(_MSC_VER)
#pragma fp_contract(off)
#endif

/* An inner node has a threshold, or the place of a set of categories; a leaf has its value, or the place of its values.
   what: the number of the feature and three bits (is an inner node; missing values go left, or members of the set go
   right; the set decides). next: the left child, which is followed by the right one; for a leaf, itself. */
typedef struct {
  double number;
  uint32_t what;
  uint32_t next;
} ${name}_node;

static const ${name}_node ${name}_nodes[] = {
$nodes
};
static const uint32_t ${name}_roots[] = {
$roots
};
/* Steps to the deepest leaf of every $group trees. */
static const uint16_t ${name}_steps[] = {
$steps
};
static const double ${name}_start[] = {$start};
$arrays
$step
void ${name}_scores(const double row[${NAME}_N_FEATURES], double scores[${NAME}_N_SCORES]) {
${crosses}  for (int k = 0; k < ${NAME}_N_SCORES; ++k) scores[k] = 0.0;
  for (uint32_t first = 0; first < ${n_trees}u; first += ${group}u) {
    /* Several walks at a time, since each mostly waits for memory. */
    uint32_t at[$group];
    const uint32_t n = ${n_trees}u - first < ${group}u ? ${n_trees}u - first : ${group}u;
    for (uint32_t k = 0; k < ${group}u; ++k) at[k] = ${name}_roots[first + (k < n ? k : 0)];
    for (uint32_t left = ${name}_steps[first / ${group}u]; left > 0; --left) {
      for (uint32_t k = 0; k < ${group}u; ++k) at[k] = ${name}_step(at[k], row);
    }
    for (uint32_t k = 0; k < n; ++k) {
$add
    }
  }
  for (int k = 0; k < ${NAME}_N_SCORES; ++k) scores[k] += ${name}_start[k];
}
$functions
void ${name}_finish(const double scores[${NAME}_N_SCORES], double out[${NAME}_N_PREDICTIONS]) {
$finish}

$predict
#if !defined(__clang__) && defined(__GNUC__)
#pragma GCC pop_options
#endif
#endif
