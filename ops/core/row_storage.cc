// SPDX-License-Identifier: Apache-2.0
#include "ops/core/row_storage.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace sfctr {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;
// Large enough for few chunks, small enough that the untouched tail of the last one does not count.
constexpr int64_t kChunkBytes = int64_t{32} << 20;

int64_t RoundUp(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// Address space of `bytes`, aligned to a huge page; nullptr if the system has none.
char* MapAligned(int64_t bytes) {
  const int64_t mapped = bytes + kHugePage;
  void* base = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<uintptr_t>(base);
  const auto aligned = static_cast<uintptr_t>(RoundUp(static_cast<int64_t>(begin), kHugePage));
  if (aligned > begin) munmap(base, aligned - begin);
  const uintptr_t end = aligned + bytes;
  if (begin + mapped > end) munmap(reinterpret_cast<void*>(end), begin + mapped - end);
  return reinterpret_cast<char*>(aligned);
}

}  // namespace

RowStorage::RowStorage(int64_t stride_bytes) : stride_bytes_(stride_bytes) {
  rows_per_chunk_log2_ = 0;
  while (stride_bytes << (rows_per_chunk_log2_ + 1) <= kChunkBytes) ++rows_per_chunk_log2_;
  row_mask_ = (uint32_t{1} << rows_per_chunk_log2_) - 1;
  chunk_bytes_ = RoundUp(stride_bytes << rows_per_chunk_log2_, kHugePage);
}

RowStorage::~RowStorage() {
  for (char* chunk : chunks_) munmap(chunk, chunk_bytes_);
}

Status RowStorage::Reserve(int64_t num_rows) {
  const size_t wanted = (num_rows + row_mask_) >> rows_per_chunk_log2_;
  if (wanted <= chunks_.size()) return Status();
  const size_t had = chunks_.size();
  chunks_.reserve(std::max(wanted, std::min(2 * had, wanted + 1024)));
  while (chunks_.size() < wanted) {
    char* chunk = MapAligned(chunk_bytes_);
    if (chunk == nullptr) {
      const int error = errno;
      while (chunks_.size() > had) {
        munmap(chunks_.back(), chunk_bytes_);
        chunks_.pop_back();
      }
      return ResourceExhausted("row storage: " + std::to_string(num_rows * stride_bytes_) +
                               " bytes of address space are needed for " + std::to_string(num_rows) +
                               " rows; the system refused (" + strerror(error) +
                               "). Lower the number of rows, the dim, or raise the limit of address space.");
    }
    const int64_t small = chunks_.empty() ? std::min(kHugePage, chunk_bytes_) : 0;
    // Advice only: without huge pages everything works, slower.
    if (chunk_bytes_ > small) madvise(chunk + small, chunk_bytes_ - small, MADV_HUGEPAGE);
    chunks_.push_back(chunk);
  }
  return Status();
}

}  // namespace sfctr
