// All kernels. Compiled by NVRTC when a GPU is first used (see cuda.py), and by the tests for the CPU.
//
// Arguments of kernels are pointers, long long and double only. Formulas that the CPU uses as well are in headers that
// both compile, so both give the same bits; contraction to fused multiply-adds must be off.
#include "cuda/bin_kernels.hpp"
#include "cuda/exact_sum_kernels.hpp"
#include "cuda/finish_kernels.hpp"
#include "cuda/histogram_kernels.hpp"
#include "cuda/loss_kernels.hpp"
#include "cuda/partition_kernels.hpp"
#include "cuda/predict_kernels.hpp"
#include "cuda/shapley_kernels.hpp"
#include "cuda/split_kernels.hpp"
#include "cuda/vector_kernels.hpp"
