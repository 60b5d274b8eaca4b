// SPDX-License-Identifier: Apache-2.0
// Compiler and executor switches shared by every core header.
//
// SFCTR_HD marks a function that the CPU loop and the CUDA kernel both compile: one text, two executors.
// Such functions use only integer arithmetic, IEEE float + - * / and sqrt, and are compiled without contraction
// (`-ffp-contract=off`, `-fmad=false`), so both executors give the same bits.
#ifndef TF_SFCTR_OPS_CORE_PLATFORM_H_
#define TF_SFCTR_OPS_CORE_PLATFORM_H_

#ifdef __CUDACC__
#define SFCTR_HD __host__ __device__
#else
#define SFCTR_HD
#endif

#define SFCTR_PREFETCH_READ(address) __builtin_prefetch((address), 0, 3)
#define SFCTR_PREFETCH_WRITE(address) __builtin_prefetch((address), 1, 3)

#endif  // TF_SFCTR_OPS_CORE_PLATFORM_H_
