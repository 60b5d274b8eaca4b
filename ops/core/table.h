// SPDX-License-Identifier: Apache-2.0
// A table: a host store, the lock around it, and the protocol that turns the gradients of one step into one update.
//
// A step may use a table several times (two features that share it). The optimizer must see the sum of all their
// gradients once, as Keras does for a shared variable. So the table counts the training lookups whose gradients are
// still due: Push() keeps a gradient until the last one has come and then applies one update. Whatever is pending is
// also applied before any later read, and a batch that is destroyed takes its lookups back, so an abandoned lookup (a
// forward pass without a backward pass) delays nothing.
//
// With a cache, training reads and updates slots of the cache; the host store has what was never fetched or was
// written back. Other reads take each row from where it is newest.
//
// Locks, in this order: lookups_->mutex (the protocol), the cache's plan lock (host store and directory, with a cache),
// store_mutex_ (values of rows in use; without a cache the whole host store).
//
// Thread-safety: all public functions may be called by any thread at any time.
#ifndef TF_SFCTR_OPS_CORE_TABLE_H_
#define TF_SFCTR_OPS_CORE_TABLE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "ops/core/buffer.h"
#include "ops/core/combine.h"
#include "ops/core/emulated_link.h"
#include "ops/core/host_store.h"
#include "ops/core/mix_cache.h"
#include "ops/core/parallel.h"
#include "ops/core/status.h"
#include "ops/core/virtual_batch.h"

namespace sfctr {

// Gradients of one use of a batch, summed per id. It owns what it holds, so it may wait for others of its step.
struct RowGradients {
  std::shared_ptr<TableBatch> batch;
  std::vector<int32_t> members;           // which of the batch's ids have gradients; empty if all have
  Buffer<float> sums;                     // [members or num_unique, embedding_floats]
  std::shared_ptr<const BatchRows> rows;  // set by Push()
};

struct TableStats {
  int64_t num_rows;
  int64_t row_bytes;    // of the rows that exist, ids and padding included
  int64_t index_bytes;  // of what finds them
  int64_t step;         // updates so far
};

class Table {
 public:
  // input_dim: size of the vocabulary, or 0 for any id. cache: null for none. link: charged for the rows of each lookup
  // and update where there is no cache.
  static Status Create(std::string name, int64_t input_dim, RowLayout layout, std::shared_ptr<MixCache> cache,
                       EmulatedLink link, std::shared_ptr<Table>* table);
  ~Table();

  const std::string& name() const { return name_; }
  const RowLayout& layout() const { return store_.layout(); }

  // This table's part of a batch.
  std::shared_ptr<TableBatch> PartOf(VirtualBatch* batch) const { return batch->ForTable(lookups_); }

  // Tells of a batch that will be looked up for training; announcements have rising numbers, equal ones in a step.
  void Announce(const std::shared_ptr<TableBatch>& batch, int64_t number);

  // Reads the rows of a batch and writes outputs, one per column group, [num_outputs, dim]. A missing id reads as its
  // initial value; nothing is created. With `training`, a Push() for this lookup is expected. REQUIRES: a batch of this
  // table.
  Status Lookup(TableBatch* batch, const Positions& positions, const std::vector<Columns<float>>& outputs,
                bool training, Executor* executor);

  // Sums gradients, [num_outputs, dim] per column group, per id of the batch. Error if a sum is not finite. Changes
  // nothing, so that the gradients of many tables can be checked before the first is pushed.
  Status Sum(const std::shared_ptr<TableBatch>& batch, const Positions& positions,
             const std::vector<Columns<const float>>& gradients, Executor* executor, RowGradients* sums) const;

  // Error if a learning rate is not usable.
  Status CheckLearningRates(const std::vector<float>& learning_rates) const;

  // Hands in gradients of lookups; they are summed with the others of the step and applied once. learning_rates: one
  // per column group. REQUIRES: gradients from Sum(), CheckLearningRates().
  Status Push(std::vector<RowGradients> gradients, const std::vector<float>& learning_rates, Executor* executor);

  // Takes back a Lookup with `training` whose step has failed before its Push().
  void CancelLookup(TableBatch* batch);

  // Drops what a failed step has pushed so far, and expects no more of it.
  void Abandon(const std::vector<TableBatch*>& batches);

  // Figures of now. `flush`: first apply what is pending; a read in the middle of a step does not want that. With a
  // cache, num_rows and the bytes are -1 without `flush`.
  Status Stats(bool flush, TableStats* stats, Executor* executor);

  // The cache, or null, and this table's number there.
  const std::shared_ptr<MixCache>& cache() const { return cache_; }
  int cache_number() const { return cache_number_; }

  // Copies up to max_rows rows that exist, from row number `cursor` on, in the order of row numbers: ids, and values of
  // `width` floats a row, either the embedding as a reader sees it or the whole row. *next_cursor: where to go on, or
  // -1 at the end.
  Status Export(int64_t cursor, int64_t max_rows, int64_t width, std::vector<int64_t>* ids,
                const std::function<float*(int64_t num_rows)>& allocate_values, int64_t* next_cursor,
                Executor* executor);

  // Sets rows, creating those that are missing. With width = embedding_floats the optimizer state of created rows is
  // initial and that of others stays. REQUIRES nothing of ids; duplicates are an error.
  Status Import(const int64_t* ids, int64_t num_ids, const float* values, int64_t width, Executor* executor);

  // Sets the number of updates so far, which is Adam's step and the argument of a learning-rate schedule.
  Status set_step(int64_t step, Executor* executor);

 private:
  Table(std::string name, int64_t input_dim, RowLayout layout, EmulatedLink link, Status* status);

  // Writes outputs. existing(u): row of virtual id u, or null. REQUIRES store_mutex_.
  template <typename Existing>
  void Gather(const UniqueIds& unique, const Positions& positions, const Existing& existing,
              const std::vector<float>& learning_rates, const std::vector<Columns<float>>& outputs, Executor* executor);
  // Reads without a place in the cache.
  void ReadAround(const UniqueIds& unique, const Positions& positions, const std::vector<float>& learning_rates,
                  const std::vector<Columns<float>>& outputs, Executor* executor);
  // Keeps plans of the cache away, if there is one.
  std::unique_lock<std::mutex> LockCache() const;

  // The rest REQUIRES lookups_->mutex.
  struct Update {
    std::vector<int64_t> ids;
    std::vector<uint32_t> rows;  // kNoRow where not known
    Buffer<float> sums;          // [ids, embedding_floats]
  };
  void Close(TableBatch* batch, int64_t num_lookups);
  Status Flush(Executor* executor);
  Status Apply(Update update, Executor* executor);
  Update MakeUpdate(RowGradients gradients) const;
  Update Merge(const std::vector<Update>& updates, Executor* executor) const;

  const std::string name_;
  const EmulatedLink link_;
  std::shared_ptr<MixCache> cache_;
  int cache_number_ = -1;
  const std::shared_ptr<OpenLookups> lookups_ = std::make_shared<OpenLookups>();  // its mutex guards the two below
  std::vector<RowGradients> pending_;
  std::vector<float> learning_rates_;  // of the last Push
  std::shared_mutex store_mutex_;
  HostStore store_;
  int64_t step_ = 0;  // guarded by store_mutex_
};

}  // namespace sfctr

#endif  // TF_SFCTR_OPS_CORE_TABLE_H_
