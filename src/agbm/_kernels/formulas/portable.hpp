// What headers that are compiled for the CPU and for GPUs use in place of the standard library, which the compiler of
// CUDA kernels at run time (NVRTC) does not have. This header is the first one that all others include.
//
// Under the emulation of the tests, kernels are compiled for the CPU; see tests/native/cuda_emulation.hpp.
#pragma once

#if defined(__CUDACC__)

// Inlined by the compiler of kernels on its own.
#define AGBM_INLINE __device__

// For long functions that kernels call in many places, which would take long to compile if they were inlined.
#define AGBM_LONG __device__ __noinline__

// Before a loop over a local array, which is then in registers.
#define AGBM_UNROLL _Pragma("unroll")
#define AGBM_NO_UNROLL _Pragma("unroll 1")

// Memory that the threads of a block share, of the size that the launch gives.
#define AGBM_DYNAMIC_SHARED(type, name)                         \
  extern __shared__ __align__(16) unsigned char agbm_shared_[]; \
  type* const name = reinterpret_cast<type*>(agbm_shared_)

#else

#include <bit>
#include <cmath>
#include <cstdint>

#define AGBM_INLINE __attribute__((always_inline))
#define AGBM_LONG AGBM_INLINE
#define AGBM_UNROLL
#define AGBM_NO_UNROLL

#endif

namespace agbm {

#if defined(__CUDACC__)
using Int8 = signed char;
using UInt8 = unsigned char;
using Int16 = short;
using UInt16 = unsigned short;
using Int32 = int;
using UInt32 = unsigned int;
using Int64 = long long;
using UInt64 = unsigned long long;
#else
using Int8 = std::int8_t;
using UInt8 = std::uint8_t;
using Int16 = std::int16_t;
using UInt16 = std::uint16_t;
using Int32 = std::int32_t;
using UInt32 = std::uint32_t;
using Int64 = std::int64_t;
using UInt64 = std::uint64_t;
#endif

static_assert(sizeof(Int16) == 2 && sizeof(Int32) == 4 && sizeof(Int64) == 8 && sizeof(double) == 8);

// The same bits as another type.
template <class To, class From>
AGBM_INLINE constexpr To bit_cast(const From& from) {
#if defined(__CUDACC__)
  return __builtin_bit_cast(To, from);
#else
  return std::bit_cast<To>(from);
#endif
}

AGBM_INLINE inline double absolute(double x) {
#if defined(__CUDACC__)
  return ::fabs(x);
#else
  return std::fabs(x);
#endif
}

AGBM_INLINE inline double copy_sign(double x, double sign) {
#if defined(__CUDACC__)
  return ::copysign(x, sign);
#else
  return std::copysign(x, sign);
#endif
}

template <class T>
AGBM_INLINE constexpr T smaller(T a, T b) {
  return b < a ? b : a;
}

template <class T>
AGBM_INLINE constexpr T larger(T a, T b) {
  return a < b ? b : a;
}

}  // namespace agbm
