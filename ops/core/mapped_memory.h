// SPDX-License-Identifier: Apache-2.0
// Large pieces of memory straight from the system, on huge pages where it has them.
//
// A random access to a large table then costs a TLB entry of few, not a page walk; and what malloc would keep as
// fragments goes back. The system gives memory page by page as it is first written; fresh memory reads as zeros.
#ifndef TF_SFCTR_OPS_CORE_MAPPED_MEMORY_H_
#define TF_SFCTR_OPS_CORE_MAPPED_MEMORY_H_

#include <cstdint>
#include <memory>

namespace sfctr {

constexpr int64_t kHugePageBytes = int64_t{2} << 20;

struct Unmap {
  int64_t bytes = 0;
  void operator()(char* memory) const;
};

using MappedMemory = std::unique_ptr<char, Unmap>;

// Address space of `bytes`, aligned to a huge page; null with errno set if the system refuses. The first `small_bytes`
// and what is left after the last whole huge page stay on small pages, so that no memory is taken that is not used.
// REQUIRES: bytes is a multiple of 4096, small_bytes of kHugePageBytes.
MappedMemory Map(int64_t bytes, int64_t small_bytes);

}  // namespace sfctr

#endif  // TF_SFCTR_OPS_CORE_MAPPED_MEMORY_H_
