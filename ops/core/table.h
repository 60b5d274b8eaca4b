// SPDX-License-Identifier: Apache-2.0
// A table: a host store, the lock around it, and the protocol that turns the gradients of one step into one update.
//
// A step may use a table several times (two features that share it). The optimizer must see the sum of all their
// gradients once, as Keras does for a shared variable. So the table counts the training lookups whose gradients are
// still due: Push() keeps a gradient until the last one has come and then applies one update. Whatever is pending is
// also applied before any later read, so an abandoned lookup (a forward pass without a backward pass) delays nothing.
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
#include "ops/core/host_store.h"
#include "ops/core/parallel.h"
#include "ops/core/status.h"

namespace sfctr {

// One use of a table by a feature in a step.
struct Use {
  const int64_t* unique_ids = nullptr;  // [num_unique], distinct
  int64_t num_unique = 0;
  Positions positions;
};

// The gradient of one use.
struct Gradient {
  Use use;
  const uint32_t* rows = nullptr;             // [num_unique], from Lookup; kNoRow where there was none
  std::vector<Columns<const float>> columns;  // per column group, [num_outputs, dim]
};

// The same, summed per unique id. It owns what it holds, so it may wait for others of its step.
struct RowGradients {
  std::vector<int64_t> unique_ids;
  std::vector<uint32_t> rows;  // [num_unique], kNoRow where there was none
  Buffer<float> sums;          // [num_unique, embedding_floats]
};

struct TableStats {
  int64_t num_rows;
  int64_t row_bytes;    // of the rows that exist, ids and padding included
  int64_t index_bytes;  // of what finds them
  int64_t step;         // updates so far
};

class Table {
 public:
  // input_dim: size of the vocabulary, or 0 for any id.
  static Status Create(std::string name, int64_t input_dim, RowLayout layout, std::shared_ptr<Table>* table);

  const std::string& name() const { return name_; }
  const RowLayout& layout() const { return store_.layout(); }

  // Reads the rows of a use and writes its outputs, one per column group, [num_outputs, dim]. A missing id reads as its
  // initial value; nothing is created. rows[num_unique] receives row numbers for Push(). With `training`, a Push()
  // for this use is expected.
  Status Lookup(const Use& use, const std::vector<Columns<float>>& outputs, bool training, uint32_t* rows,
                Executor* executor);

  // Sums the gradients of a use per unique id. Error if a sum is not finite. Changes nothing, so that the gradients of
  // many tables can be checked before the first is pushed.
  Status Sum(const Gradient& gradient, Executor* executor, RowGradients* sums) const;

  // Error if a learning rate is not usable.
  Status CheckLearningRates(const std::vector<float>& learning_rates) const;

  // Hands in gradients of uses looked up with `training`; they are summed with the others of the step and applied once.
  // learning_rates: one per column group. REQUIRES: gradients from Sum(), CheckLearningRates().
  Status Push(std::vector<RowGradients> gradients, const std::vector<float>& learning_rates, Executor* executor);

  // Takes back a Lookup with `training` whose step has failed before its Push().
  void CancelLookup();

  // Drops what a failed step has pushed so far, and expects no more of it.
  void Abandon();

  // Figures of now. `flush`: first apply what is pending; a read in the middle of a step does not want that.
  TableStats Stats(bool flush, Executor* executor);

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
  Table(std::string name, int64_t input_dim, RowLayout layout, Status* status);

  // The rest REQUIRES step_mutex_.
  Status Flush(Executor* executor);
  Status Apply(RowGradients gradients, Executor* executor);
  RowGradients Merge(const std::vector<RowGradients>& gradients, Executor* executor) const;

  const std::string name_;
  std::mutex step_mutex_;  // guards the three below; taken before store_mutex_
  int64_t open_lookups_ = 0;
  std::vector<RowGradients> pending_;
  std::vector<float> learning_rates_;  // of the last Push
  std::shared_mutex store_mutex_;      // guards store_ and step_
  HostStore store_;
  int64_t step_ = 0;
};

}  // namespace sfctr

#endif  // TF_SFCTR_OPS_CORE_TABLE_H_
