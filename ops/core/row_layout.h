// SPDX-License-Identifier: Apache-2.0
// What a row of a table is made of.
//
// A row is one or more column groups, each with its own width, initializer and optimizer: the wide weight (width 1,
// FTRL) and the deep vector (Adagrad) of an id can share one row, one lookup and one update. In floats:
//   [embedding of group 0 | embedding of group 1 | ... | state of group 0 | state of group 1 | ...]
#ifndef TF_SFCTR_OPS_CORE_ROW_LAYOUT_H_
#define TF_SFCTR_OPS_CORE_ROW_LAYOUT_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "ops/core/initializer.h"
#include "ops/core/optimizer.h"

namespace sfctr {

struct ColumnGroup {
  int64_t dim = 0;
  Initializer initializer;
  Optimizer optimizer;
  int64_t embedding_offset = 0;  // set by RowLayout
  int64_t state_offset = 0;      // set by RowLayout
};

class RowLayout {
 public:
  RowLayout(uint64_t seed, std::vector<ColumnGroup> groups) : seed_(seed), groups_(std::move(groups)) {
    for (ColumnGroup& group : groups_) {
      group.embedding_offset = embedding_floats_;
      embedding_floats_ += group.dim;
    }
    row_floats_ = embedding_floats_;
    for (ColumnGroup& group : groups_) {
      group.state_offset = row_floats_;
      row_floats_ += StateSize(group.optimizer, group.dim);
      catches_up_ |= group.optimizer.kind == OptimizerKind::kAdam && group.optimizer.catch_up;
    }
  }

  uint64_t seed() const { return seed_; }
  const std::vector<ColumnGroup>& groups() const { return groups_; }
  int64_t embedding_floats() const { return embedding_floats_; }
  int64_t row_floats() const { return row_floats_; }
  // True if what a reader sees of a row depends on the step (Adam with catch_up).
  bool catches_up() const { return catches_up_; }

  // First value of the embedding of `id`: a pure function of (seed, id, column).
  void InitializeEmbedding(int64_t id, float* embedding) const {  // [embedding_floats]
    const uint64_t row_seed = RowSeed(seed_, id);
    int32_t column = 0;
    for (const ColumnGroup& group : groups_) {
      for (int64_t i = 0; i < group.dim; ++i, ++column) {
        embedding[column] = InitialValue(group.initializer, row_seed, column);
      }
    }
  }

  void InitializeStates(float* row) const {  // [row_floats]
    for (const ColumnGroup& group : groups_) InitializeState(group.optimizer, group.dim, row + group.state_offset);
  }

  // Brings the row of a reader up to `step` where an optimizer owes it skipped steps.
  void CatchUp(const std::vector<float>& learning_rates, uint32_t step, float* row) const {
    for (size_t g = 0; g < groups_.size(); ++g) {
      const ColumnGroup& group = groups_[g];
      if (group.optimizer.kind != OptimizerKind::kAdam || !group.optimizer.catch_up) continue;
      AdamCatchUp(group.optimizer, learning_rates[g], step, group.dim, row + group.embedding_offset,
                  row + group.state_offset);
    }
  }

 private:
  uint64_t seed_;
  std::vector<ColumnGroup> groups_;
  int64_t embedding_floats_ = 0;
  int64_t row_floats_ = 0;
  bool catches_up_ = false;
};

}  // namespace sfctr

#endif  // TF_SFCTR_OPS_CORE_ROW_LAYOUT_H_
