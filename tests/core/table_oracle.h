// SPDX-License-Identifier: Apache-2.0
// A table as anyone would write it: a std::unordered_map of rows. It sums gradients in the order that combine.h
// promises, so that a Table must equal it bit for bit.
#ifndef TF_SFCTR_TESTS_CORE_TABLE_ORACLE_H_
#define TF_SFCTR_TESTS_CORE_TABLE_ORACLE_H_

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ops/core/row_layout.h"
#include "ops/core/table.h"
#include "tests/core/test_util.h"

namespace sfctr {

class TableOracle {
 public:
  using Rows = std::unordered_map<int64_t, std::vector<float>>;
  using Sums = std::unordered_map<int64_t, std::vector<float>>;

  explicit TableOracle(RowLayout layout) : layout_(std::move(layout)), learning_rates_(layout_.groups().size(), 0.0f) {}

  const Rows& rows() const { return rows_; }
  Rows* mutable_rows() { return &rows_; }
  int64_t step() const { return step_; }
  void set_step(int64_t step) { step_ = step; }

  std::vector<float> InitialRow(int64_t id) const {
    std::vector<float> row(layout_.row_floats());
    layout_.InitializeEmbedding(id, row.data());
    layout_.InitializeStates(row.data());
    return row;
  }

  // The whole row as a reader sees it.
  std::vector<float> Read(int64_t id) const {
    const auto it = rows_.find(id);
    if (it == rows_.end()) return InitialRow(id);
    std::vector<float> row = it->second;
    layout_.CatchUp(learning_rates_, static_cast<uint32_t>(step_), row.data());
    return row;
  }

  // Sums of a use without a combiner; `values` as TestUse::MakeGradient takes them.
  Sums SumUse(const std::vector<int64_t>& ids, std::optional<int64_t> padding_id,
              const std::vector<float>& values) const {
    Sums sums;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (padding_id == ids[i]) continue;
      std::vector<float>& sum = sums[ids[i]];
      const bool is_first = sum.empty();
      sum.resize(layout_.embedding_floats());
      const float* group_values = values.data();
      for (const ColumnGroup& group : layout_.groups()) {
        for (int64_t c = 0; c < group.dim; ++c) {
          const float g = group_values[static_cast<int64_t>(i) * group.dim + c];
          float& target = sum[group.embedding_offset + c];
          target = is_first ? g : target + g;
        }
        group_values += static_cast<int64_t>(ids.size()) * group.dim;
      }
    }
    return sums;
  }

  // One update with the gradients of all uses of a step.
  void Update(const std::vector<Sums>& uses, const std::vector<float>& learning_rates) {
    learning_rates_ = learning_rates;
    ++step_;
    Sums total;
    for (const Sums& use : uses) {
      for (const auto& [id, sum] : use) {
        const auto [it, is_first] = total.emplace(id, sum);
        for (size_t c = 0; !is_first && c < sum.size(); ++c) it->second[c] += sum[c];
      }
    }
    for (auto& [id, sum] : total) {
      std::vector<float>& row = rows_.try_emplace(id, InitialRow(id)).first->second;
      for (size_t g = 0; g < layout_.groups().size(); ++g) {
        const ColumnGroup& group = layout_.groups()[g];
        UpdateRow(group.optimizer, MakeUpdateScalars(group.optimizer, learning_rates[g], static_cast<uint32_t>(step_)),
                  group.dim, sum.data() + group.embedding_offset, row.data() + group.embedding_offset,
                  row.data() + group.state_offset);
      }
    }
  }

  void Import(int64_t id, const float* values, int64_t width) {
    std::vector<float> row = Read(id);
    std::copy_n(values, width, row.begin());
    rows_[id] = std::move(row);
  }

 private:
  RowLayout layout_;
  std::vector<float> learning_rates_;
  Rows rows_;
  int64_t step_ = 0;
};

inline std::shared_ptr<Table> MakeTable(RowLayout layout, int64_t input_dim = 0) {
  std::shared_ptr<Table> table;
  Table::Create("items", input_dim, std::move(layout), nullptr, {}, &table);
  return table;
}

struct Exported {
  std::vector<int64_t> ids;
  std::vector<float> values;
  int64_t num_chunks = 0;
  Status status;
};

// Everything in a table, in chunks of max_rows; `width` floats a row.
inline Exported ExportAll(Table* table, int64_t width, int64_t max_rows, Executor* executor) {
  Exported all;
  for (int64_t cursor = 0; cursor >= 0; ++all.num_chunks) {
    std::vector<int64_t> ids;
    std::vector<float> values;
    const auto allocate = [&](int64_t num_rows) {
      values.resize(num_rows * width + 1);  // one more: an empty vector has no address
      return values.data();
    };
    all.status = table->Export(cursor, max_rows, width, &ids, allocate, &cursor, executor);
    if (!all.status.ok()) return all;
    all.ids.insert(all.ids.end(), ids.begin(), ids.end());
    all.values.insert(all.values.end(), values.begin(), values.end() - 1);
  }
  return all;
}

}  // namespace sfctr

#endif  // TF_SFCTR_TESTS_CORE_TABLE_ORACLE_H_
