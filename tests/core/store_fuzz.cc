// SPDX-License-Identifier: Apache-2.0
// Random operations on a table and on a std::unordered_map<int64_t, std::vector<float>> beside it: both must hold the
// same bits after every one. The input is a program: a header (form, width, optimizers, threads), then operations of
// an opcode and its arguments. Ids come from a small set, from extremes, from one hash value, or straight from the
// input, so that inputs of a few bytes already reach duplicates, collisions and growth.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ops/core/table.h"
#include "tests/core/table_oracle.h"
#include "tests/core/test_util.h"

namespace sfctr {
namespace {

#define CHECK_THAT(condition)                                                       \
  do {                                                                              \
    if (!(condition)) {                                                             \
      fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
      abort();                                                                      \
    }                                                                               \
  } while (false)

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), end_(data + size) {}
  bool empty() const { return data_ == end_; }
  uint8_t Byte() { return empty() ? 0 : *data_++; }
  uint64_t Word() {
    uint64_t word = 0;
    for (int i = 0; i < 8; ++i) word = word << 8 | Byte();
    return word;
  }

 private:
  const uint8_t* data_;
  const uint8_t* end_;
};

class Machine {
 public:
  explicit Machine(Input* input)
      : input_(input),
        input_dim_(input->Byte() % 2 == 0 ? 0 : 1 + input->Byte()),
        layout_(MakeLayout()),
        executor_(1 + input->Byte() % 3),
        table_(MakeTable(layout_, input_dim_)),
        oracle_(layout_) {}

  void Run() {
    for (int operation = 0; operation < 64 && !input_->empty(); ++operation) {
      switch (input_->Byte() % 8) {
        case 0:
          Read();
          break;
        case 1:
          Train(1);
          break;
        case 2:
          Train(2);
          break;
        case 3:
          Import(/*whole=*/false);
          break;
        case 4:
          Import(/*whole=*/true);
          break;
        case 5:
          CheckExport();
          break;
        case 6:
          Grow();
          break;
        case 7:
          SetStep();
          break;
      }
    }
    CheckExport();
  }

 private:
  RowLayout MakeLayout() {
    std::vector<ColumnGroup> groups;
    const int num_groups = 1 + input_->Byte() % 2;
    for (int g = 0; g < num_groups; ++g) {
      const uint8_t byte = input_->Byte();
      ColumnGroup group = Group(1 + byte % 5, static_cast<OptimizerKind>(byte / 5 % 6));
      group.optimizer.catch_up = byte >= 128;
      group.initializer.kind = static_cast<InitializerKind>(byte % 4);
      groups.push_back(group);
    }
    return RowLayout(input_->Byte(), std::move(groups));
  }

  int64_t Id() {
    const uint8_t byte = input_->Byte();
    if (input_dim_ > 0) return byte % input_dim_;
    switch (byte / 64) {
      case 0:
        return byte % 64 - 32;
      case 1:
        return IdWithHash(0x5EED5EEDu, byte % 64);
      case 2:
        return byte % 2 == 0 ? std::numeric_limits<int64_t>::min() + byte % 64
                             : std::numeric_limits<int64_t>::max() - byte % 64;
      default:
        return static_cast<int64_t>(input_->Word());
    }
  }

  std::vector<int64_t> Ids() {
    std::vector<int64_t> ids(input_->Byte() % 40);
    for (int64_t& id : ids) id = Id();
    return ids;
  }

  std::vector<float> Floats(int64_t n) { return RandomFloats(n, input_->Byte()); }

  // The embedding of `id` at `values` is the oracle's; zeros for padding.
  void CheckEmbedding(int64_t id, bool padding, const float* values) const {
    std::vector<float> expected = oracle_.Read(id);
    if (padding) expected.assign(expected.size(), 0.0f);
    CHECK_THAT(memcmp(values, expected.data(), layout_.embedding_floats() * sizeof(float)) == 0);
  }

  TestUse LookUp(const std::vector<int64_t>& ids, std::optional<int64_t> padding_id, bool training) {
    TestUse use(ids, padding_id);
    CHECK_THAT(use.Lookup(table_.get(), training, &executor_).ok());
    for (size_t i = 0; i < ids.size(); ++i) {
      CheckEmbedding(ids[i], padding_id == ids[i], use.values().data() + i * layout_.embedding_floats());
    }
    return use;
  }

  void Read() { LookUp(Ids(), Padding(), /*training=*/false); }

  std::optional<int64_t> Padding() {
    return input_->Byte() % 2 == 0 ? std::nullopt : std::optional<int64_t>(input_dim_ > 0 ? 0 : -1);
  }

  // A step with some uses of the table. An odd argument abandons one more lookup.
  void Train(int num_uses) {
    if (input_->Byte() % 8 == 1) LookUp(Ids(), {}, /*training=*/true);
    std::vector<TestUse> uses;
    std::vector<Gradient> gradients;
    std::vector<TableOracle::Sums> sums;
    for (int i = 0; i < num_uses; ++i) {
      const std::vector<int64_t> ids = Ids();
      const std::optional<int64_t> padding_id = Padding();
      uses.push_back(LookUp(ids, padding_id, /*training=*/true));
      const std::vector<float> values = Floats(static_cast<int64_t>(ids.size()) * layout_.embedding_floats());
      gradients.push_back(uses.back().MakeGradient(layout_, values));
      sums.push_back(oracle_.SumUse(ids, padding_id, values));
    }
    const std::vector<float> rates(layout_.groups().size(), 0.01f * static_cast<float>(1 + input_->Byte()));
    for (const Gradient& gradient : gradients) CHECK_THAT(PushAll(table_.get(), {gradient}, rates, &executor_).ok());
    StatsOf(table_.get(), /*flush=*/true, &executor_);
    oracle_.Update(sums, rates);
    CheckSize();
  }

  void Import(bool whole) {
    const std::vector<int64_t> ids = Ids();
    const auto n = static_cast<int64_t>(ids.size());
    const bool distinct = TestUse(ids).unique_ids().size() == ids.size();
    const int64_t width = whole ? layout_.row_floats() : layout_.embedding_floats();
    std::vector<float> values = RandomFloats(n * width, input_->Byte(), 0.1f, 1.0f);
    // What stands for Adam's last step must be one that was.
    for (int64_t i = 0; whole && i < n; ++i) ClearLastSteps(values.data() + i * width);
    const Status status = table_->Import(ids.data(), n, values.data(), width, &executor_);
    CHECK_THAT(status.ok() == distinct);
    for (int64_t i = 0; distinct && i < n; ++i) oracle_.Import(ids[i], values.data() + i * width, width);
    CheckSize();
  }

  void ClearLastSteps(float* row) const {
    for (const ColumnGroup& group : layout_.groups()) {
      const bool has = group.optimizer.kind == OptimizerKind::kAdam && group.optimizer.catch_up;
      if (has) row[group.state_offset + 2 * group.dim] = 0.0f;
    }
  }

  // Many new rows at once: segments grow, chunks are added.
  void Grow() {
    const uint64_t seed = input_->Byte();
    std::vector<int64_t> ids;
    for (uint64_t i = 0; i < 200; ++i) {
      const auto id = static_cast<int64_t>(Mix64(seed << 32 | i));
      ids.push_back(input_dim_ > 0 ? (id & 0xFFFF) % input_dim_ : id);
    }
    const std::vector<int64_t> unique_ids = TestUse(ids).unique_ids();
    const auto n = static_cast<int64_t>(unique_ids.size());
    const int64_t width = layout_.embedding_floats();
    const std::vector<float> values = RandomFloats(n * width, seed);
    CHECK_THAT(table_->Import(unique_ids.data(), n, values.data(), width, &executor_).ok());
    for (int64_t i = 0; i < n; ++i) oracle_.Import(unique_ids[i], values.data() + i * width, width);
    CheckSize();
  }

  void SetStep() {
    const int64_t step = oracle_.step() + input_->Byte();
    CHECK_THAT(table_->set_step(step, &executor_).ok());
    oracle_.set_step(step);
  }

  void CheckSize() {
    const TableStats stats = StatsOf(table_.get(), /*flush=*/true, &executor_);
    CHECK_THAT(stats.num_rows == static_cast<int64_t>(oracle_.rows().size()));
    CHECK_THAT(stats.step == oracle_.step());
  }

  void CheckExport() {
    const int64_t width = layout_.row_floats();
    const Exported all = ExportAll(table_.get(), width, 1 + input_->Byte(), &executor_);
    CHECK_THAT(all.status.ok());
    CHECK_THAT(all.ids.size() == oracle_.rows().size());
    for (size_t i = 0; i < all.ids.size(); ++i) {
      CHECK_THAT(oracle_.rows().count(all.ids[i]) == 1);
      const std::vector<float> expected = oracle_.Read(all.ids[i]);
      CHECK_THAT(memcmp(all.values.data() + i * width, expected.data(), width * sizeof(float)) == 0);
    }
  }

  Input* input_;
  int64_t input_dim_;
  RowLayout layout_;
  ThreadExecutor executor_;
  std::shared_ptr<Table> table_;
  TableOracle oracle_;
};

}  // namespace
}  // namespace sfctr

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sfctr::Input input(data, size);
  sfctr::Machine(&input).Run();
  return 0;
}
