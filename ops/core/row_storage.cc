// SPDX-License-Identifier: Apache-2.0
#include "ops/core/row_storage.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace sfctr {
namespace {

// Large enough for few chunks, small enough that the untouched tail of the last one does not count.
constexpr int64_t kChunkBytes = int64_t{32} << 20;
constexpr int64_t kSmallPageBytes = 4096;

int64_t RoundUp(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

}  // namespace

RowStorage::RowStorage(int64_t stride_bytes) : stride_bytes_(stride_bytes) {
  rows_per_chunk_log2_ = 0;
  while (stride_bytes << rows_per_chunk_log2_ < kChunkBytes) ++rows_per_chunk_log2_;
  row_mask_ = (uint32_t{1} << rows_per_chunk_log2_) - 1;
  chunk_bytes_ = RoundUp(stride_bytes << rows_per_chunk_log2_, kSmallPageBytes);
}

Status RowStorage::Reserve(int64_t num_rows) {
  const size_t wanted = (num_rows + row_mask_) >> rows_per_chunk_log2_;
  if (wanted <= chunks_.size()) return Status();
  const size_t had = chunks_.size();
  chunks_.reserve(std::max(wanted, std::min(2 * had, wanted + 1024)));
  while (chunks_.size() < wanted) {
    MappedMemory chunk = Map(chunk_bytes_, chunks_.empty() ? kHugePageBytes : 0);
    if (chunk == nullptr) {
      const int error = errno;
      chunks_.resize(had);
      return ResourceExhausted("row storage: " + std::to_string(num_rows * stride_bytes_) +
                               " bytes of address space are needed for " + std::to_string(num_rows) +
                               " rows; the system refused (" + strerror(error) +
                               "). Lower the number of rows, the dim, or raise the limit of address space.");
    }
    chunks_.push_back(std::move(chunk));
  }
  return Status();
}

}  // namespace sfctr
