// All kernels. Compiled by NVRTC when a GPU is first used (see cuda.py), and by the tests for the CPU.
//
// Arguments of kernels are pointers, long long and double only. Formulas that the CPU uses as well are in headers that
// both compile, so both give the same bits; contraction to fused multiply-adds must be off.
#include "bin_kernels.hpp"
#include "exact_sum_kernels.hpp"
#include "finish_kernels.hpp"
#include "histogram_kernels.hpp"
#include "loss_kernels.hpp"
#include "partition_kernels.hpp"
#include "predict_kernels.hpp"
#include "split_kernels.hpp"
#include "vector_kernels.hpp"
