// SPDX-License-Identifier: Apache-2.0
// A batch as the data loader leaves it: its distinct ids (Virtual Sparse Ids), and what each table knows of it.
//
// A batch is made once, in the input pipeline or in the step. Tables are then told that it will come (announced), look
// it up, and update what it used. Destroying a batch ends all of that: rows it pinned are free again, gradients that
// never came are not waited for. So an abandoned batch needs no clean-up of its own.
#ifndef TF_SFCTR_OPS_CORE_VIRTUAL_BATCH_H_
#define TF_SFCTR_OPS_CORE_VIRTUAL_BATCH_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "ops/core/buffer.h"
#include "ops/core/parallel.h"
#include "ops/core/stage_log.h"

namespace sfctr {

struct UniqueIds {
  Buffer<int64_t> ids;  // the first num_unique of them, distinct, in order of first appearance
  int64_t num_unique = 0;
  int64_t num_ids = 0;           // before duplicates were removed
  Clock::time_point begin, end;  // of removing them
};

// Where the rows of a batch are: row numbers of the host store, or slots of the cache, pinned as long as this lives.
struct BatchRows {
  Buffer<uint32_t> rows;      // [num_unique]
  std::shared_ptr<void> pin;  // goes before the rows
};

// Of a table: the lookups whose gradients are still due, and the lock of the protocol that waits for them. Batches
// share it, since a batch that is destroyed takes its lookups back.
struct OpenLookups {
  std::mutex mutex;
  int64_t count = 0;  // guarded by mutex
};

// A cache's promise to prepare a batch (mix_cache.h). Its batch owns it alone: destroying it gives the promise up.
struct Announcement;

// What one table knows of one batch.
struct TableBatch {
  TableBatch(std::shared_ptr<const UniqueIds> unique_ids, std::shared_ptr<OpenLookups> of_table)
      : unique(std::move(unique_ids)), table(std::move(of_table)) {}
  ~TableBatch() {
    if (open_lookups == 0) return;
    std::lock_guard<std::mutex> lock(table->mutex);
    table->count -= std::min(table->count, open_lookups);
  }

  const std::shared_ptr<const UniqueIds> unique;
  const std::shared_ptr<OpenLookups> table;

  // Guarded by table->mutex.
  int64_t open_lookups = 0;                    // whose gradients are due
  std::shared_ptr<const BatchRows> looked_up;  // while some are
  Clock::time_point train_begin;

  std::atomic<int64_t> number{0};              // of its announcement; 0 without one
  std::shared_ptr<Announcement> announcement;  // guarded by the cache's state lock
};

class VirtualBatch {
 public:
  explicit VirtualBatch(std::shared_ptr<const UniqueIds> unique) : unique_(std::move(unique)) {}

  const std::shared_ptr<const UniqueIds>& unique() const { return unique_; }

  // What the table with these lookups knows of this batch; the same object each time.
  std::shared_ptr<TableBatch> ForTable(const std::shared_ptr<OpenLookups>& table) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const std::shared_ptr<TableBatch>& batch : tables_) {
      if (batch->table == table) return batch;
    }
    return tables_.emplace_back(std::make_shared<TableBatch>(unique_, table));
  }

 private:
  const std::shared_ptr<const UniqueIds> unique_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<TableBatch>> tables_;
};

// Removes duplicates: writes virtual ids to inverse[num_ids], kPadding for the padding id.
std::shared_ptr<const UniqueIds> Virtualize(const int64_t* ids, int64_t num_ids, std::optional<int64_t> padding_id,
                                            int32_t* inverse, Executor* executor);

}  // namespace sfctr

#endif  // TF_SFCTR_OPS_CORE_VIRTUAL_BATCH_H_
