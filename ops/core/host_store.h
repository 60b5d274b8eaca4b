// SPDX-License-Identifier: Apache-2.0
// The host store: the authoritative home of a table's rows in RAM.
//
// Hashed form (input_dim = 0): any int64 is an id. Rows are numbered in the order of creation; a row in memory is
//   [id: int64 | floats of the RowLayout | pad to 8 bytes]
// and an IdIndex finds it. Indexed form (input_dim > 0): ids are 0 .. input_dim - 1, the id is the row number, a bitmap
// tells which rows exist, and a row in memory is just its floats.
//
// A row exists from its first update or import on; before that its id reads as its initial value. Rows never move.
//
// Thread-safety: const functions may run beside each other; the others exclude everything (Table holds the lock).
#ifndef TF_SFCTR_OPS_CORE_HOST_STORE_H_
#define TF_SFCTR_OPS_CORE_HOST_STORE_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "ops/core/id_index.h"
#include "ops/core/parallel.h"
#include "ops/core/row_layout.h"
#include "ops/core/row_storage.h"
#include "ops/core/status.h"

namespace sfctr {

class HostStore {
 public:
  // input_dim: size of the vocabulary, or 0 for any id. `status` receives an error of reserving memory.
  HostStore(int64_t input_dim, RowLayout layout, Status* status);

  const RowLayout& layout() const { return layout_; }
  int64_t input_dim() const { return input_dim_; }
  int64_t size() const { return size_; }
  // Bytes of the rows that exist, their ids included, and of what finds them.
  int64_t row_bytes() const { return size_ * storage_.stride_bytes(); }
  int64_t index_bytes() const;

  // Error if an id lies outside the vocabulary of an indexed table; names the first one.
  Status CheckIds(const int64_t* ids, int64_t num_ids) const;

  // rows[i] = number of the row of ids[i], or kNoRow. REQUIRES: CheckIds(ids).
  void Find(const int64_t* ids, int64_t num_ids, uint32_t* rows, Executor* executor) const;

  // Creates, with initial values, the rows of the ids whose rows[i] is kNoRow, and sets rows[i]. The result depends on
  // the order of the ids only, not on the number of threads. On error no row was created.
  // REQUIRES: distinct ids, CheckIds(ids).
  Status Create(const int64_t* ids, int64_t num_ids, uint32_t* rows, Executor* executor);

  float* row(uint32_t number) const { return reinterpret_cast<float*>(storage_.row(number) + header_bytes_); }
  int64_t id_of(uint32_t number) const {
    return header_bytes_ == 0 ? number : *reinterpret_cast<const int64_t*>(storage_.row(number));
  }
  // Asks for the cache lines of a row's first `num_floats` floats.
  void PrefetchForRead(uint32_t number, int64_t num_floats) const;
  void PrefetchForWrite(uint32_t number) const;

  // Smallest existing row number >= `number`, or -1.
  int64_t NextRow(int64_t number) const;

 private:
  bool Exists(int64_t id) const { return (exists_[id >> 6].load(std::memory_order_relaxed) >> (id & 63)) & 1; }
  void FindHashed(const int64_t* ids, int64_t num_ids, uint32_t* rows) const;

  const int64_t input_dim_;
  const RowLayout layout_;
  const int64_t header_bytes_;  // of the id before the floats
  RowStorage storage_;
  int64_t size_ = 0;
  std::unique_ptr<IdIndex> index_;                   // hashed form
  std::unique_ptr<std::atomic<uint64_t>[]> exists_;  // indexed form, one bit a row
};

}  // namespace sfctr

#endif  // TF_SFCTR_OPS_CORE_HOST_STORE_H_
