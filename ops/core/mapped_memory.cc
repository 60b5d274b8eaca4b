// SPDX-License-Identifier: Apache-2.0
#include "ops/core/mapped_memory.h"

#include <sys/mman.h>

namespace sfctr {

void Unmap::operator()(char* memory) const { munmap(memory, bytes); }

MappedMemory Map(int64_t bytes, int64_t small_bytes) {
  // One huge page more than needed, and cut to an aligned part.
  const int64_t mapped = bytes + kHugePageBytes;
  void* base = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<uintptr_t>(base);
  const uintptr_t aligned = (begin + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  if (aligned > begin) munmap(base, aligned - begin);
  const uintptr_t end = aligned + bytes;
  if (begin + mapped > end) munmap(reinterpret_cast<void*>(end), begin + mapped - end);
  auto* memory = reinterpret_cast<char*>(aligned);
  // Advice only: without huge pages everything works, slower.
  const int64_t huge_bytes = bytes / kHugePageBytes * kHugePageBytes - small_bytes;
  if (huge_bytes > 0) madvise(memory + small_bytes, huge_bytes, MADV_HUGEPAGE);
  return MappedMemory(memory, Unmap{bytes});
}

}  // namespace sfctr
