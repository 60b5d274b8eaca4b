// SPDX-License-Identifier: Apache-2.0
// Compiler and executor switches shared by every core header.
//
// SFCTR_HD marks a function that the CPU loop and the CUDA kernel both compile: one text, two executors.
// Such functions use only integer arithmetic, IEEE float + - * / and sqrt, and are compiled without contraction
// (`-ffp-contract=off`, `-fmad=false`), so both executors give the same bits.
#ifndef TF_SFCTR_OPS_CORE_PLATFORM_H_
#define TF_SFCTR_OPS_CORE_PLATFORM_H_

#include <cstdint>

#ifdef __CUDACC__
#define SFCTR_HD __host__ __device__
#else
#define SFCTR_HD
#endif

#define SFCTR_PREFETCH_READ(address) __builtin_prefetch((address), 0, 3)
#define SFCTR_PREFETCH_WRITE(address) __builtin_prefetch((address), 1, 3)

namespace sfctr {

constexpr uintptr_t kCacheLineBytes = 64;

// Calls prefetch(address) once for each cache line of [begin, begin + bytes). A second prefetch of a line on its way is
// not free: it takes one of the few places for misses in flight.
template <typename Prefetch>
inline void ForEachCacheLine(const void* begin, int64_t bytes, const Prefetch& prefetch) {
  const auto address = reinterpret_cast<uintptr_t>(begin);
  const uintptr_t end = address + static_cast<uintptr_t>(bytes);
  for (uintptr_t line = address & ~(kCacheLineBytes - 1); line < end; line += kCacheLineBytes) {
    prefetch(reinterpret_cast<const char*>(line));
  }
}

}  // namespace sfctr

#endif  // TF_SFCTR_OPS_CORE_PLATFORM_H_
