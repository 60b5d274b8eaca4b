// SPDX-License-Identifier: Apache-2.0
// What the tests and benchmarks of the core share: deterministic random numbers, power-law ids, ids that collide, and
// a use of a table that owns its arrays. All of it is a pure function of its arguments.
#ifndef TF_SFCTR_TESTS_CORE_TEST_UTIL_H_
#define TF_SFCTR_TESTS_CORE_TEST_UTIL_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "ops/core/combine.h"
#include "ops/core/hash.h"
#include "ops/core/row_layout.h"
#include "ops/core/table.h"
#include "ops/core/unique.h"
#include "ops/core/virtual_batch.h"

namespace sfctr {

constexpr int kThreadCounts[] = {1, 2, 3, 4, 7, 16};

// SplitMix64: the same numbers with every standard library.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(Mix64(seed + 1)) {}
  uint64_t Next() { return Mix64(state_ += 0x9E3779B97F4A7C15ull); }
  // In [0, n).
  int64_t Below(int64_t n) { return static_cast<int64_t>(Next() % static_cast<uint64_t>(n)); }
  // In [0, 1).
  double Unit() { return static_cast<double>(Next() >> 11) / 9007199254740992.0; }
  float Between(float low, float high) { return low + (high - low) * static_cast<float>(Unit()); }

 private:
  uint64_t state_;
};

inline std::vector<float> RandomFloats(int64_t n, uint64_t seed, float low = -1.0f, float high = 1.0f) {
  Random random(seed);
  std::vector<float> values(n);
  for (float& value : values) value = random.Between(low, high);
  return values;
}

// Ids in [0, num_ids_total) whose frequency falls with rank^-skew, frequent ranks scattered over the range.
inline std::vector<int64_t> PowerLawIds(int64_t n, int64_t vocabulary, double skew, uint64_t seed) {
  Random random(seed);
  const double power = 1.0 - skew;
  const double top = std::pow(static_cast<double>(vocabulary), power) - 1.0;
  std::vector<int64_t> ids(n);
  for (int64_t& id : ids) {
    const auto rank = static_cast<uint64_t>(std::pow(1.0 + top * random.Unit(), 1.0 / power));
    id = static_cast<int64_t>(Mix64(rank) % static_cast<uint64_t>(vocabulary));
  }
  return ids;
}

inline uint64_t InverseMix64(uint64_t x) {
  x ^= (x >> 31) ^ (x >> 62);
  x *= 0x319642B2D24D8EC3ull;
  x ^= (x >> 27) ^ (x >> 54);
  x *= 0x96DE1B173F119089ull;
  x ^= (x >> 30) ^ (x >> 60);
  return x;
}

// The `k`-th id whose IndexHash() is `hash`.
inline int64_t IdWithHash(uint32_t hash, uint32_t k) {
  return static_cast<int64_t>(InverseMix64(static_cast<uint64_t>(hash) << 32 | k) - 0x9E3779B97F4A7C15ull);
}

inline ColumnGroup Group(int64_t dim, OptimizerKind kind,
                         Initializer initializer = {InitializerKind::kUniform, -1, 1}) {
  ColumnGroup group;
  group.dim = dim;
  group.initializer = initializer;
  group.optimizer.kind = kind;
  group.optimizer.momentum = 0.9f;
  return group;
}

inline std::vector<float> Initial(const RowLayout& layout, int64_t id) {
  std::vector<float> row(layout.embedding_floats());
  layout.InitializeEmbedding(id, row.data());
  return row;
}

// The gradient of one use.
struct Gradient {
  std::shared_ptr<VirtualBatch> batch;
  Positions positions;
  std::vector<Columns<const float>> columns;  // per column group, [num_outputs, dim]
};

// A use of a table, its arrays, and what a lookup of it returned.
class TestUse {
 public:
  explicit TestUse(std::vector<int64_t> ids, std::optional<int64_t> padding_id = std::nullopt) : ids_(std::move(ids)) {
    unique_ids_.resize(ids_.size());
    inverse_.resize(ids_.size());
    InlineExecutor executor;
    unique_ids_.resize(Unique(ids_.data(), size(), padding_id, unique_ids_.data(), inverse_.data(), &executor));
    inverse_.resize(ids_.size());
    batch_ = std::make_shared<VirtualBatch>(Virtualize(ids_.data(), size(), padding_id, inverse_.data(), &executor));
  }

  TestUse& Combine(Combiner combiner, std::vector<int64_t> splits, std::vector<float> weights = {}) {
    combiner_ = combiner;
    splits_ = std::move(splits);
    weights_ = std::move(weights);
    return *this;
  }

  int64_t size() const { return static_cast<int64_t>(ids_.size()); }
  const std::vector<int64_t>& ids() const { return ids_; }
  const std::vector<int64_t>& unique_ids() const { return unique_ids_; }
  const std::vector<int32_t>& inverse() const { return inverse_; }
  // Row numbers that the last lookup of `table` has found and its update will use.
  std::vector<uint32_t> rows(Table* table) const {
    const Buffer<uint32_t>& rows = Part(table)->looked_up->rows;
    return {rows.data(), rows.data() + rows.size()};
  }
  const std::shared_ptr<VirtualBatch>& batch() const { return batch_; }
  std::shared_ptr<TableBatch> Part(Table* table) const { return table->PartOf(batch_.get()); }
  // Outputs of the last lookup, [num_outputs, embedding_floats].
  const std::vector<float>& values() const { return values_; }

  Positions positions() const {
    Positions positions;
    positions.inverse = inverse_.data();
    positions.num_ids = size();
    positions.combiner = combiner_;
    positions.splits = splits_.data();
    positions.num_bags = static_cast<int64_t>(splits_.size()) - 1;
    positions.weights = weights_.empty() ? nullptr : weights_.data();
    return positions;
  }

  Status Lookup(Table* table, bool training, Executor* executor) {
    const int64_t width = table->layout().embedding_floats();
    values_.assign((positions().num_outputs() + 1) * width, NAN);  // one row more: an empty vector has no address
    std::vector<Columns<float>> outputs;
    for (const ColumnGroup& group : table->layout().groups()) {
      outputs.push_back({values_.data() + group.embedding_offset, width, group.dim});
    }
    values_.resize(positions().num_outputs() * width);
    return table->Lookup(Part(table).get(), positions(), outputs, training, executor);
  }

  // `values`: one matrix [num_outputs, dim] per column group, one after the other. The use keeps a copy of it and of
  // itself for the gradient to point to.
  Gradient MakeGradient(const RowLayout& layout, std::vector<float> values) const {
    const auto owner = std::make_shared<std::pair<TestUse, std::vector<float>>>(*this, std::move(values));
    Gradient gradient;
    gradient.batch = batch_;
    gradient.positions = owner->first.positions();
    const float* data = owner->second.data();
    for (const ColumnGroup& group : layout.groups()) {
      gradient.columns.push_back({data, group.dim, group.dim});
      data += positions().num_outputs() * group.dim;
    }
    owners_.push_back(owner);
    return gradient;
  }

 private:
  std::vector<int64_t> ids_;
  std::vector<int64_t> unique_ids_;
  std::vector<int32_t> inverse_;
  std::shared_ptr<VirtualBatch> batch_;
  Combiner combiner_ = Combiner::kNone;
  std::vector<int64_t> splits_;
  std::vector<float> weights_;
  std::vector<float> values_;
  mutable std::vector<std::shared_ptr<const void>> owners_;
};

// Sums and checks gradients as SfctrApplyGradients does, and pushes them unless `push` is false.
inline Status PushAll(Table* table, const std::vector<Gradient>& gradients, const std::vector<float>& learning_rates,
                      Executor* executor, bool push = true) {
  std::vector<RowGradients> sums(gradients.size());
  for (size_t i = 0; i < gradients.size(); ++i) {
    SFCTR_RETURN_IF_ERROR(table->Sum(table->PartOf(gradients[i].batch.get()), gradients[i].positions,
                                     gradients[i].columns, executor, &sums[i]));
  }
  SFCTR_RETURN_IF_ERROR(table->CheckLearningRates(learning_rates));
  return push ? table->Push(std::move(sums), learning_rates, executor) : Status();
}

// Figures of a table that has no error to report.
inline TableStats StatsOf(Table* table, bool flush, Executor* executor) {
  TableStats stats{};
  const Status status = table->Stats(flush, &stats, executor);
  if (!status.ok()) stats.step = -1;
  return stats;
}

}  // namespace sfctr

#endif  // TF_SFCTR_TESTS_CORE_TEST_UTIL_H_
