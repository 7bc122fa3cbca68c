// Vectors of eight numbers, and a choice of the widest vector instructions of the machine.
//
// The same source is compiled for the baseline instruction set and for wider ones. Every lane performs the IEEE
// operations of the source in the same order, without contraction, so all of them give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#endif

#include "formulas/portable.hpp"

namespace agbm {

constexpr int kLanes = 8;
// typedef instead of using: with using, Clang ignores the alignment and assumes that the vectors are aligned.
typedef double Doubles __attribute__((vector_size(64), aligned(8), may_alias));
typedef std::int64_t Integers __attribute__((vector_size(64), aligned(8), may_alias));

// The warning concerns how vectors are passed to functions; here they are only passed to inlined ones.
#pragma GCC diagnostic ignored "-Wpsabi"

// A condition as a factor of a number. Clang would make a branch of the product, which is mispredicted for half of random
// values; GCC does not, and is slower with a function here.
#if defined(__clang__)
AGBM_INLINE inline unsigned without_branch(unsigned condition) {
  __asm__("" : "+r"(condition));
  return condition;
}
#define AGBM_WITHOUT_BRANCH(condition) without_branch(condition)
#else
#define AGBM_WITHOUT_BRANCH(condition) (condition)
#endif

// Vectors of one register, for sums in registers: compilers generate poor code for wider ones.
struct Vectors128 {
  static constexpr int kLanes = 2;
  using Numbers = double __attribute__((vector_size(16)));
  using Words = std::int64_t __attribute__((vector_size(16)));
  using Halves = std::int32_t __attribute__((vector_size(16)));
};
struct Vectors256 {
  static constexpr int kLanes = 4;
  using Numbers = double __attribute__((vector_size(32)));
  using Words = std::int64_t __attribute__((vector_size(32)));
  using Halves = std::int32_t __attribute__((vector_size(32)));
};
struct Vectors512 {
  static constexpr int kLanes = 8;
  using Numbers = double __attribute__((vector_size(64)));
  using Words = std::int64_t __attribute__((vector_size(64)));
  using Halves = std::int32_t __attribute__((vector_size(64)));
};

// Lanes of two vectors in another order; those of the second follow those of the first.
template <class Words, int... Lanes>
AGBM_INLINE inline Words shuffled(Words first, Words second, std::integer_sequence<int, Lanes...>) {
#if defined(__clang__)
  return __builtin_shufflevector(first, second, Lanes...);
#else
  return __builtin_shuffle(first, second, Words{Lanes...});
#endif
}

// Operations on vectors of one register, `Words` of `Vectors`.
template <class Vectors>
struct WordLanes {
  static constexpr int kLanes = Vectors::kLanes;
  using Words = typename Vectors::Words;

  // The sums of each lane and those before it.
  AGBM_INLINE static Words prefix_sums(Words x) {
    x += moved_up<1>(x, kAll);
    if constexpr (kLanes > 2) x += moved_up<2>(x, kAll);
    if constexpr (kLanes > 4) x += moved_up<4>(x, kAll);
    return x;
  }
  AGBM_INLINE static Words last_in_all(Words x) { return last(x, kAll); }
  // Every second word of 2 kLanes words, from the first or the second one on.
  AGBM_INLINE static Words even(Words first, Words second) { return alternate<0>(first, second, kAll); }
  AGBM_INLINE static Words odd(Words first, Words second) { return alternate<1>(first, second, kAll); }
  AGBM_INLINE static bool all_negative(Words x) {
    if constexpr (kLanes > 4) x &= rotated<4>(x, kAll);
    if constexpr (kLanes > 2) x &= rotated<2>(x, kAll);
    return (x[0] & x[1]) < 0;
  }

 private:
  static constexpr std::make_integer_sequence<int, kLanes> kAll{};

  template <int N, int... Lanes>
  AGBM_INLINE static Words moved_up(Words x, std::integer_sequence<int, Lanes...>) {
    return shuffled(Words{}, x, std::integer_sequence<int, (Lanes < N ? Lanes : kLanes + Lanes - N)...>());
  }
  template <int N, int... Lanes>
  AGBM_INLINE static Words rotated(Words x, std::integer_sequence<int, Lanes...>) {
    return shuffled(x, x, std::integer_sequence<int, Lanes + N...>());
  }
  template <int... Lanes>
  AGBM_INLINE static Words last(Words x, std::integer_sequence<int, Lanes...>) {
    return shuffled(x, x, std::integer_sequence<int, kLanes - 1 + 0 * Lanes...>());
  }
  template <int From, int... Lanes>
  AGBM_INLINE static Words alternate(Words first, Words second, std::integer_sequence<int, Lanes...>) {
    return shuffled(first, second, std::integer_sequence<int, (2 * Lanes + From)...>());
  }
};

#if defined(__x86_64__) && defined(__GNUC__)
template <class Body>
__attribute__((target("avx2"))) void with_avx2(const Body& body) {
  body();
}
#if defined(__clang__)
#define AGBM_AVX512 "avx512f,avx512dq,avx512vl,avx512bw"
#else
#define AGBM_AVX512 "avx512f,avx512dq,avx512vl,avx512bw,prefer-vector-width=512"
#endif
template <class Body>
__attribute__((target(AGBM_AVX512))) void with_avx512(const Body& body) {
  body();
}

enum class Instructions { kPlain, kAvx2, kAvx512 };

// The widest instructions that the processor has and whose registers the system saves. __builtin_cpu_supports() would say
// the same, but Zig's runtime library does not have what it calls.
inline Instructions supported_instructions() {
  unsigned a, b, c, d;
  constexpr unsigned saves_registers = 1u << 27, avx = 1u << 28;  // of leaf 1, in c
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & saves_registers) == 0 || (c & avx) == 0) return Instructions::kPlain;
  unsigned saved, high;
  __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return Instructions::kPlain;
  constexpr unsigned avx2 = 1u << 5,
                     avx512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;  // f, dq, bw, vl; of leaf 7, in b
  constexpr unsigned registers256 = 0x6, registers512 = 0xe6;
  if ((b & avx512) == avx512 && (saved & registers512) == registers512) return Instructions::kAvx512;
  return (b & avx2) != 0 && (saved & registers256) == registers256 ? Instructions::kAvx2 : Instructions::kPlain;
}

// The widest instructions of the machine. The environment variable AGBM_INSTRUCTIONS ("plain", "avx2") limits them, so
// that the others can be tested.
inline Instructions widest_instructions() {
  static const Instructions found = [] {
    const char* most = std::getenv("AGBM_INSTRUCTIONS");
    if (most != nullptr && std::strcmp(most, "plain") == 0) return Instructions::kPlain;
    const Instructions widest = supported_instructions();
    const bool limited = most != nullptr && std::strcmp(most, "avx2") == 0;
    return limited && widest == Instructions::kAvx512 ? Instructions::kAvx2 : widest;
  }();
  return found;
}

// Runs body(vectors), a lambda marked AGBM_INLINE, with the widest instructions and vectors of one register.
template <class Body>
void vectorised_by_register(const Body& body) {
  switch (widest_instructions()) {
    case Instructions::kAvx512: return with_avx512([&]() AGBM_INLINE { body(Vectors512()); });
    case Instructions::kAvx2: return with_avx2([&]() AGBM_INLINE { body(Vectors256()); });
    default: body(Vectors128());
  }
}

// Runs body(), a lambda marked AGBM_INLINE, with the widest instructions.
template <class Body>
void vectorised(const Body& body) {
  switch (widest_instructions()) {
    case Instructions::kAvx512: return with_avx512(body);
    case Instructions::kAvx2: return with_avx2(body);
    default: body();
  }
}
#else
template <class Body>
void vectorised_by_register(const Body& body) {
  body(Vectors128());
}

template <class Body>
void vectorised(const Body& body) {
  body();
}
#endif

AGBM_INLINE inline Integers load(const std::int64_t* from) { return *reinterpret_cast<const Integers*>(from); }
// Loads the first n of eight numbers, followed by zeros.
AGBM_INLINE inline Doubles load_some(const double* from, std::size_t n) {
  if (n >= kLanes) return *reinterpret_cast<const Doubles*>(from);
  Doubles v = {};
  for (std::size_t lane = 0; lane < n; ++lane) v[lane] = from[lane];
  return v;
}
AGBM_INLINE inline void store(double* to, Doubles v) { *reinterpret_cast<Doubles*>(to) = v; }
AGBM_INLINE inline Doubles to_doubles(Integers v) { return __builtin_convertvector(v, Doubles); }

}  // namespace agbm
