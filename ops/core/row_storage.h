// SPDX-License-Identifier: Apache-2.0
// Memory of the rows of one table: fixed-size chunks of address space, so that growth never moves or copies a row.
//
// A row is reached by its number: chunk = number >> rows_per_chunk_log2, then a multiple of the stride. A chunk is
// mapped when its first row is asked for; the system gives it memory page by page as rows are written. Chunks are
// aligned to 2 MiB and ask for huge pages (a random row then costs one TLB entry of few, not a page walk), except the
// first 2 MiB of a table, so that a table of ten rows takes a few KiB.
//
// Thread-safety: Reserve() excludes everything else; row() may run at any time beside other row() calls.
#ifndef TF_SFCTR_OPS_CORE_ROW_STORAGE_H_
#define TF_SFCTR_OPS_CORE_ROW_STORAGE_H_

#include <cstdint>
#include <vector>

#include "ops/core/mapped_memory.h"
#include "ops/core/status.h"

namespace sfctr {

class RowStorage {
 public:
  // stride_bytes: bytes from one row to the next. REQUIRES: a positive multiple of 4.
  explicit RowStorage(int64_t stride_bytes);

  // Makes rows [0, num_rows) addressable; new ones read as zeros. On error nothing changes.
  Status Reserve(int64_t num_rows);

  char* row(uint32_t number) const {
    return chunks_[number >> rows_per_chunk_log2_].get() + (number & row_mask_) * stride_bytes_;
  }

  int64_t stride_bytes() const { return stride_bytes_; }
  int64_t num_reserved_rows() const { return static_cast<int64_t>(chunks_.size()) << rows_per_chunk_log2_; }

 private:
  int64_t stride_bytes_;
  int rows_per_chunk_log2_;
  uint32_t row_mask_;
  int64_t chunk_bytes_;
  std::vector<MappedMemory> chunks_;
};

}  // namespace sfctr

#endif  // TF_SFCTR_OPS_CORE_ROW_STORAGE_H_
