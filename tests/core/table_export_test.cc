// SPDX-License-Identifier: Apache-2.0
// Export and import of tables.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "ops/core/table.h"
#include "tests/core/table_oracle.h"
#include "tests/core/test_util.h"

namespace sfctr {
namespace {

constexpr float kRate = 0.05f;

RowLayout Layout(OptimizerKind kind = OptimizerKind::kAdagrad, bool catch_up = false) {
  ColumnGroup group = Group(2, kind);
  group.optimizer.catch_up = catch_up;
  return RowLayout(7, {group});
}

class TableExportTest : public testing::Test {
 protected:
  void Train(Table* table, const std::vector<int64_t>& ids, uint64_t seed) {
    TestUse use(ids);
    ASSERT_TRUE(use.Lookup(table, true, &executor_).ok());
    const std::vector<float> g = RandomFloats(static_cast<int64_t>(ids.size()) * 2, seed);
    ASSERT_TRUE(PushAll(table, {use.MakeGradient(table->layout(), g)}, {kRate}, &executor_).ok());
  }

  std::vector<float> Read(Table* table, const std::vector<int64_t>& ids) {
    TestUse use(ids);
    EXPECT_TRUE(use.Lookup(table, false, &executor_).ok());
    return use.values();
  }

  void Import(Table* table, const std::vector<int64_t>& ids, const std::vector<float>& values, int64_t width) {
    const Status status = table->Import(ids.data(), static_cast<int64_t>(ids.size()), values.data(), width, &executor_);
    ASSERT_TRUE(status.ok()) << status.message();
  }

  InlineExecutor executor_;
};

TEST_F(TableExportTest, AnEmptyTableIsOneEmptyChunk) {
  for (const int64_t input_dim : {0, 10}) {
    const auto table = MakeTable(Layout(), input_dim);
    const Exported all = ExportAll(table.get(), 2, 10, &executor_);
    EXPECT_TRUE(all.status.ok());
    EXPECT_TRUE(all.ids.empty());
    EXPECT_EQ(all.num_chunks, 1);
    Import(table.get(), {}, {}, 2);
    EXPECT_EQ(StatsOf(table.get(), true, &executor_).num_rows, 0);
  }
}

TEST_F(TableExportTest, GoesByRowNumber) {
  const auto hashed = MakeTable(Layout());
  Train(hashed.get(), {9, -4, 9, 2}, 1);
  EXPECT_EQ(ExportAll(hashed.get(), 2, 10, &executor_).ids, (std::vector<int64_t>{9, -4, 2}));
  const auto indexed = MakeTable(Layout(), 200);
  Train(indexed.get(), {9, 150, 9, 2}, 1);
  EXPECT_EQ(ExportAll(indexed.get(), 2, 10, &executor_).ids, (std::vector<int64_t>{2, 9, 150}));
}

TEST_F(TableExportTest, ChunksOfAnySizeTogetherAreTheWhole) {
  for (const int64_t input_dim : {0, 100}) {
    const auto table = MakeTable(Layout(), input_dim);
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < 30; ++i) ids.push_back(i * 7 % 100);
    Train(table.get(), ids, 2);
    const Exported whole = ExportAll(table.get(), 4, 1000, &executor_);
    EXPECT_EQ(whole.ids.size(), 30u);
    EXPECT_EQ(whole.num_chunks, 1);
    for (const int64_t max_rows : {1, 4, 29, 30, 31}) {
      const Exported chunks = ExportAll(table.get(), 4, max_rows, &executor_);
      EXPECT_EQ(chunks.ids, whole.ids);
      EXPECT_EQ(chunks.values, whole.values);
      EXPECT_EQ(chunks.num_chunks, (30 + max_rows - 1) / max_rows);
    }
  }
}

TEST_F(TableExportTest, WholeRowsRoundTripAndTrainingGoesOnTheSame) {
  for (const OptimizerKind kind : {OptimizerKind::kSgd, OptimizerKind::kMomentum, OptimizerKind::kAdagrad,
                                   OptimizerKind::kRowWiseAdagrad, OptimizerKind::kAdam, OptimizerKind::kFtrl}) {
    const auto table = MakeTable(Layout(kind));
    const auto loaded = MakeTable(Layout(kind));
    for (int step = 0; step < 10; ++step) Train(table.get(), PowerLawIds(50, 100, 1.05, step), step);
    const int64_t width = table->layout().row_floats();
    const Exported saved = ExportAll(table.get(), width, 7, &executor_);
    Import(loaded.get(), saved.ids, saved.values, width);
    ASSERT_TRUE(loaded->set_step(10, &executor_).ok());
    for (int step = 10; step < 20; ++step) {
      Train(table.get(), PowerLawIds(50, 100, 1.05, step), step);
      Train(loaded.get(), PowerLawIds(50, 100, 1.05, step), step);
    }
    const Exported a = ExportAll(table.get(), width, 1000, &executor_);
    const Exported b = ExportAll(loaded.get(), width, 1000, &executor_);
    EXPECT_EQ(a.ids, b.ids);
    EXPECT_EQ(a.values, b.values) << static_cast<int>(kind);
  }
}

TEST_F(TableExportTest, ExtremeIdsRoundTrip) {
  const auto table = MakeTable(Layout());
  const std::vector<int64_t> ids = {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(), -1, 0};
  const std::vector<float> values = RandomFloats(8, 1);
  Import(table.get(), ids, values, 2);
  const Exported all = ExportAll(table.get(), 2, 3, &executor_);
  EXPECT_EQ(all.ids, ids);
  EXPECT_EQ(all.values, values);
}

TEST_F(TableExportTest, ImportedEmbeddingsKeepTheStateOfRowsThatExist) {
  const auto table = MakeTable(Layout());
  Train(table.get(), {1}, 3);
  const Exported before = ExportAll(table.get(), 4, 10, &executor_);
  Import(table.get(), {2, 1}, {5, 6, 7, 8}, 2);
  const Exported after = ExportAll(table.get(), 4, 10, &executor_);
  EXPECT_EQ(after.ids, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(after.values, (std::vector<float>{7, 8, before.values[2], before.values[3], 5, 6, 0.1f, 0.1f}));
  EXPECT_NE(before.values[2], 0.1f);
}

TEST_F(TableExportTest, ImportAppliesWhatIsPendingFirst) {
  const auto table = MakeTable(Layout());
  TestUse first({1}), second({2});
  ASSERT_TRUE(first.Lookup(table.get(), true, &executor_).ok());
  ASSERT_TRUE(second.Lookup(table.get(), true, &executor_).ok());
  const std::vector<float> g = {1, 1};
  ASSERT_TRUE(PushAll(table.get(), {first.MakeGradient(table->layout(), g)}, {kRate}, &executor_).ok());
  Import(table.get(), {1}, {5, 6}, 2);
  EXPECT_EQ(Read(table.get(), {1}), (std::vector<float>{5, 6}));
  EXPECT_EQ(StatsOf(table.get(), true, &executor_).step, 1);
}

TEST_F(TableExportTest, SetStepIsAdamsStep) {
  const auto table = MakeTable(Layout(OptimizerKind::kAdam));
  ASSERT_TRUE(table->set_step(999, &executor_).ok());
  TestUse use({1});
  ASSERT_TRUE(use.Lookup(table.get(), true, &executor_).ok());
  const std::vector<float> g = {1, 1};
  ASSERT_TRUE(PushAll(table.get(), {use.MakeGradient(table->layout(), g)}, {kRate}, &executor_).ok());
  TableOracle oracle(table->layout());
  oracle.set_step(999);
  oracle.Update({{{1, {1, 1}}}}, {kRate});
  const std::vector<float> read = Read(table.get(), {1});
  EXPECT_EQ(read[0], oracle.Read(1)[0]);
  EXPECT_EQ(read[1], oracle.Read(1)[1]);
}

TEST_F(TableExportTest, ExportedEmbeddingsAreWhatAReaderSees) {
  const auto table = MakeTable(Layout(OptimizerKind::kAdam, /*catch_up=*/true));
  for (int step = 0; step < 20; ++step) Train(table.get(), {step % 3}, step);
  const Exported all = ExportAll(table.get(), 2, 10, &executor_);
  EXPECT_EQ(all.values, Read(table.get(), all.ids));
}

// A row that owed skipped steps moved on by them after its embedding had been set.
TEST_F(TableExportTest, AnImportedEmbeddingReadsBackThoughItsRowOwedSteps) {
  const auto table = MakeTable(Layout(OptimizerKind::kAdam, /*catch_up=*/true));
  Train(table.get(), {1}, 0);
  for (int step = 0; step < 5; ++step) Train(table.get(), {2}, step);
  Import(table.get(), {1}, {5, 6}, 2);
  EXPECT_EQ(Read(table.get(), {1}), (std::vector<float>{5, 6}));
}

// The learning rate of the steps that rows owed was lost, so that a loaded table read otherwise than the saved one.
TEST_F(TableExportTest, ALoadedTableReadsAsTheSavedOneThoughRowsOwedSteps) {
  const auto table = MakeTable(Layout(OptimizerKind::kAdam, /*catch_up=*/true));
  for (int step = 0; step < 20; ++step) Train(table.get(), {step * step % 7}, step);
  const auto loaded = MakeTable(Layout(OptimizerKind::kAdam, /*catch_up=*/true));
  const int64_t width = table->layout().row_floats();
  const Exported saved = ExportAll(table.get(), width, 10, &executor_);
  Import(loaded.get(), saved.ids, saved.values, width);
  ASSERT_TRUE(loaded->set_step(20, &executor_).ok());
  EXPECT_EQ(Read(loaded.get(), saved.ids), Read(table.get(), saved.ids));
  for (int step = 20; step < 40; ++step) {
    Train(table.get(), {step * step % 7}, step);
    Train(loaded.get(), {step * step % 7}, step);
  }
  const std::vector<float> a = Read(table.get(), saved.ids);
  const std::vector<float> b = Read(loaded.get(), saved.ids);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-6);
}

}  // namespace
}  // namespace sfctr
