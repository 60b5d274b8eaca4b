// SPDX-License-Identifier: Apache-2.0
#include "ops/core/table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/core/table_oracle.h"
#include "tests/core/test_util.h"

namespace sfctr {
namespace {

RowLayout Layout(OptimizerKind kind = OptimizerKind::kSgd, int64_t dim = 2) { return RowLayout(7, {Group(dim, kind)}); }

RowLayout AdamCatchUpLayout(int64_t dim = 2) {
  ColumnGroup group = Group(dim, OptimizerKind::kAdam);
  group.optimizer.catch_up = true;
  return RowLayout(7, {group});
}

class TableTest : public testing::Test {
 protected:
  void LookUp(Table* table, TestUse* use, bool training = true) {
    const Status status = use->Lookup(table, training, &executor_);
    ASSERT_TRUE(status.ok()) << status.message();
  }

  void Push(Table* table, std::vector<Gradient> gradients, float lr = 0.5f) {
    const std::vector<float> rates(table->layout().groups().size(), lr);
    const Status status = PushAll(table, gradients, rates, &executor_);
    ASSERT_TRUE(status.ok()) << status.message();
  }

  // One step with one use.
  void Train(Table* table, const std::vector<int64_t>& ids, const std::vector<float>& values, float lr = 0.5f) {
    TestUse use(ids);
    LookUp(table, &use);
    Push(table, {use.MakeGradient(table->layout(), values)}, lr);
  }

  std::vector<float> Read(Table* table, const std::vector<int64_t>& ids) {
    TestUse use(ids);
    LookUp(table, &use, /*training=*/false);
    return use.values();
  }

  int64_t Step(Table* table) { return StatsOf(table, false, &executor_).step; }
  int64_t NumRows(Table* table) { return StatsOf(table, false, &executor_).num_rows; }

  void ExpectEqual(Table* table, const TableOracle& oracle) {
    const int64_t width = table->layout().embedding_floats();
    const Exported all = ExportAll(table, width, 1 << 20, &executor_);
    ASSERT_EQ(all.ids.size(), oracle.rows().size());
    for (size_t i = 0; i < all.ids.size(); ++i) {
      const std::vector<float> expected = oracle.Read(all.ids[i]);
      for (int64_t c = 0; c < width; ++c) ASSERT_EQ(all.values[i * width + c], expected[c]) << "id " << all.ids[i];
    }
  }

  InlineExecutor executor_;
};

TEST_F(TableTest, LookupCreatesNothingAndMissingRowsReadAsInitialValues) {
  for (const int64_t input_dim : {0, 100}) {
    const auto table = MakeTable(Layout(), input_dim);
    TestUse use({5, 99, 5});
    LookUp(table.get(), &use);
    EXPECT_EQ(NumRows(table.get()), 0);
    EXPECT_EQ(use.rows(table.get()), (std::vector<uint32_t>{kNoRow, kNoRow}));
    const std::vector<float> five = Initial(table->layout(), 5);
    const std::vector<float> other = Initial(table->layout(), 99);
    EXPECT_EQ(use.values(), (std::vector<float>{five[0], five[1], other[0], other[1], five[0], five[1]}));
  }
}

TEST_F(TableTest, TwoEmptyUsesAreOneUpdateOfNothing) {
  const auto table = MakeTable(RowLayout(1, {Group(1, OptimizerKind::kFtrl), Group(2, OptimizerKind::kSgd)}));
  TestUse first({}), second({});
  LookUp(table.get(), &first);
  LookUp(table.get(), &second);
  Push(table.get(), {first.MakeGradient(table->layout(), {}), second.MakeGradient(table->layout(), {})});
  EXPECT_EQ(Step(table.get()), 1);
  EXPECT_EQ(NumRows(table.get()), 0);
}

TEST_F(TableTest, ACancelledLookupIsNotWaitedFor) {
  const auto table = MakeTable(Layout());
  TestUse cancelled({1}), use({2});
  LookUp(table.get(), &cancelled);
  LookUp(table.get(), &use);
  table->CancelLookup(cancelled.Part(table.get()).get());
  Push(table.get(), {use.MakeGradient(table->layout(), {1, 1})});
  EXPECT_EQ(StatsOf(table.get(), /*flush=*/false, &executor_).step, 1);
}

TEST_F(TableTest, PaddingReadsAsZerosAndGetsNoRow) {
  const auto table = MakeTable(Layout());
  TestUse use({3, -1}, -1);
  LookUp(table.get(), &use);
  EXPECT_EQ(use.values()[2], 0.0f);
  EXPECT_EQ(use.values()[3], 0.0f);
  Push(table.get(), {use.MakeGradient(table->layout(), {1, 1, 1, 1})});
  EXPECT_EQ(NumRows(table.get()), 1);
}

TEST_F(TableTest, AnUpdateSumsDuplicatesAndCreatesRows) {
  const auto table = MakeTable(Layout());
  Train(table.get(), {5, -8, 5}, {1, 2, 10, 20, 3, 4});
  const std::vector<float> five = Initial(table->layout(), 5);
  const std::vector<float> other = Initial(table->layout(), -8);
  EXPECT_EQ(Read(table.get(), {5, -8}), (std::vector<float>{five[0] - 2, five[1] - 3, other[0] - 5, other[1] - 10}));
  EXPECT_EQ(NumRows(table.get()), 2);
  EXPECT_EQ(Step(table.get()), 1);
}

TEST_F(TableTest, EmptyUsesAreFine) {
  const auto table = MakeTable(Layout());
  Train(table.get(), {}, {});
  EXPECT_EQ(NumRows(table.get()), 0);
  EXPECT_EQ(Step(table.get()), 1);
  TestUse bags({});
  bags.Combine(Combiner::kMean, {0, 0, 0});
  LookUp(table.get(), &bags, false);
  EXPECT_EQ(bags.values(), (std::vector<float>{0, 0, 0, 0}));
}

TEST_F(TableTest, EqualsTheOracleWithEveryOptimizer) {
  for (int kind = 0; kind <= static_cast<int>(OptimizerKind::kFtrl); ++kind) {
    for (const int64_t input_dim : {0, 500}) {
      for (const bool catch_up : {false, true}) {
        ColumnGroup deep = Group(3, static_cast<OptimizerKind>(kind));
        deep.optimizer.catch_up = catch_up;
        const RowLayout layout(3, {Group(1, OptimizerKind::kFtrl), deep});
        const auto table = MakeTable(layout, input_dim);
        TableOracle oracle(layout);
        for (int step = 0; step < 40; ++step) {
          TestUse use(PowerLawIds(200, 500, 1.05, step), 77);
          LookUp(table.get(), &use);
          const std::vector<float> values = RandomFloats(200 * 4, step);
          Push(table.get(), {use.MakeGradient(layout, values)}, 0.05f);
          oracle.Update({oracle.SumUse(use.ids(), 77, values)}, {0.05f, 0.05f});
        }
        SCOPED_TRACE(kind);
        ExpectEqual(table.get(), oracle);
        EXPECT_EQ(Step(table.get()), 40);
      }
    }
  }
}

TEST_F(TableTest, TwoUsesInAStepAreOneUpdateWithSummedGradients) {
  for (const auto kind : {OptimizerKind::kAdagrad, OptimizerKind::kAdam, OptimizerKind::kMomentum}) {
    const RowLayout layout = Layout(kind);
    const auto shared = MakeTable(layout);
    const auto single = MakeTable(layout);
    TableOracle oracle(layout);
    for (int step = 0; step < 30; ++step) {
      std::vector<int64_t> ids = PowerLawIds(80, 200, 1.05, 2 * step);
      const std::vector<int64_t> more = PowerLawIds(50, 200, 1.05, 2 * step + 1);
      std::vector<float> values = RandomFloats(160, 2 * step);
      const std::vector<float> more_values = RandomFloats(100, 2 * step + 1);
      TestUse first(ids), second(more);
      LookUp(shared.get(), &first);
      LookUp(shared.get(), &second);
      Push(shared.get(), {first.MakeGradient(layout, values)});
      EXPECT_EQ(Step(shared.get()), step);  // waits for the other
      Push(shared.get(), {second.MakeGradient(layout, more_values)});
      EXPECT_EQ(Step(shared.get()), step + 1);
      oracle.Update({oracle.SumUse(ids, {}, values), oracle.SumUse(more, {}, more_values)}, {0.5f});
      ids.insert(ids.end(), more.begin(), more.end());
      values.insert(values.end(), more_values.begin(), more_values.end());
      Train(single.get(), ids, values);
    }
    ExpectEqual(shared.get(), oracle);
    const Exported a = ExportAll(shared.get(), 2, 1000, &executor_);
    const Exported b = ExportAll(single.get(), 2, 1000, &executor_);
    ASSERT_EQ(a.ids, b.ids);
    for (size_t i = 0; i < a.values.size(); ++i) ASSERT_NEAR(a.values[i], b.values[i], 2e-5);
  }
}

TEST_F(TableTest, GradientsPushedTogetherAreOneUpdate) {
  const auto table = MakeTable(Layout());
  TestUse first({1}), second({1});
  LookUp(table.get(), &first);
  LookUp(table.get(), &second);
  Push(table.get(), {first.MakeGradient(table->layout(), {1, 2}), second.MakeGradient(table->layout(), {3, 4})});
  EXPECT_EQ(Step(table.get()), 1);
  const std::vector<float> initial = Initial(table->layout(), 1);
  EXPECT_EQ(Read(table.get(), {1}), (std::vector<float>{initial[0] - 2, initial[1] - 3}));
}

TEST_F(TableTest, UsesWithCombinersAndWithoutAddUp) {
  const auto table = MakeTable(Layout());
  TestUse plain({1, 2}), bags({1, 1, 2, 9});
  bags.Combine(Combiner::kMean, {0, 3, 4});
  LookUp(table.get(), &plain);
  LookUp(table.get(), &bags);
  Push(table.get(),
       {plain.MakeGradient(table->layout(), {1, 1, 2, 2}), bags.MakeGradient(table->layout(), {3, 6, 8, 8})}, 1.0f);
  const std::vector<float> values = Read(table.get(), {1, 2, 9});
  const float expected[] = {3, 5, 3, 4, 8, 8};  // 1 + 2/3 * 3, 1 + 2/3 * 6, 2 + 3/3, ...
  for (int i = 0; i < 6; ++i) {
    const int64_t id = i < 2 ? 1 : (i < 4 ? 2 : 9);
    EXPECT_NEAR(values[i], Initial(table->layout(), id)[i % 2] - expected[i], 2e-6);
  }
}

TEST_F(TableTest, AnAbandonedLookupDelaysNoUpdatePastTheNextRead) {
  const auto table = MakeTable(Layout());
  TestUse abandoned({1});
  LookUp(table.get(), &abandoned);
  Train(table.get(), {1}, {1, 1});
  const std::vector<float> initial = Initial(table->layout(), 1);
  EXPECT_EQ(Read(table.get(), {1})[0], initial[0] - 0.5f);
  EXPECT_EQ(Step(table.get()), 1);
  // From here on every step counts by itself again.
  Train(table.get(), {1}, {1, 1});
  EXPECT_EQ(Step(table.get()), 2);
  Train(table.get(), {1}, {1, 1});
  EXPECT_EQ(Step(table.get()), 3);
}

TEST_F(TableTest, APushWithoutALookupIsApplied) {
  const auto table = MakeTable(Layout());
  TestUse use({4});
  LookUp(table.get(), &use, /*training=*/false);
  Push(table.get(), {use.MakeGradient(table->layout(), {2, 2})});
  EXPECT_EQ(Step(table.get()), 1);
}

TEST_F(TableTest, AReadSeesWhatIsPending) {
  const auto table = MakeTable(Layout());
  TestUse first({1}), second({2});
  LookUp(table.get(), &first);
  LookUp(table.get(), &second);
  Push(table.get(), {first.MakeGradient(table->layout(), {2, 2})});
  EXPECT_EQ(Step(table.get()), 0);
  EXPECT_EQ(Read(table.get(), {1})[0], Initial(table->layout(), 1)[0] - 1);
  EXPECT_EQ(Step(table.get()), 1);
  Push(table.get(), {second.MakeGradient(table->layout(), {2, 2})});
  EXPECT_EQ(Step(table.get()), 2);
}

TEST_F(TableTest, StatsApplyWhatIsPendingOnlyWhenAsked) {
  const auto table = MakeTable(Layout());
  TestUse first({1}), second({2});
  LookUp(table.get(), &first);
  LookUp(table.get(), &second);
  Push(table.get(), {first.MakeGradient(table->layout(), {2, 2})});
  EXPECT_EQ(StatsOf(table.get(), false, &executor_).num_rows, 0);
  const TableStats stats = StatsOf(table.get(), true, &executor_);
  EXPECT_EQ(stats.num_rows, 1);
  EXPECT_EQ(stats.step, 1);
  EXPECT_EQ(stats.row_bytes, 16);  // id and two floats
  EXPECT_GT(stats.index_bytes, 0);
}

TEST_F(TableTest, AbandonDropsWhatAFailedStepPushed) {
  const auto table = MakeTable(Layout());
  TestUse first({1}), second({2});
  LookUp(table.get(), &first);
  LookUp(table.get(), &second);
  Push(table.get(), {first.MakeGradient(table->layout(), {2, 2})});
  table->Abandon({first.Part(table.get()).get(), second.Part(table.get()).get()});
  EXPECT_EQ(Read(table.get(), {1}), Initial(table->layout(), 1));
  EXPECT_EQ(StatsOf(table.get(), true, &executor_).step, 0);
  Train(table.get(), {1}, {1, 1});
  EXPECT_EQ(Step(table.get()), 1);
}

TEST_F(TableTest, ARowThatAnotherUpdateCreatedSinceTheLookupIsNotCreatedTwice) {
  const auto table = MakeTable(Layout());
  TestUse early({1, 2});
  LookUp(table.get(), &early, false);
  Train(table.get(), {2}, {1, 1});
  Push(table.get(), {early.MakeGradient(table->layout(), {1, 1, 1, 1})});
  EXPECT_EQ(NumRows(table.get()), 2);
  EXPECT_EQ(Read(table.get(), {2})[0], Initial(table->layout(), 2)[0] - 0.5f - 0.5f);
}

TEST_F(TableTest, CatchUpReadsAsDenseAdamWithGradientsOfZero) {
  const auto table = MakeTable(AdamCatchUpLayout());
  ColumnGroup group = Group(2, OptimizerKind::kAdam);
  const RowLayout dense(7, {group});
  TableOracle oracle(dense);
  const std::vector<int64_t> all = {1, 2, 3, 4};
  for (int step = 0; step < 60; ++step) {
    const int64_t id = 1 + step * step % 4;  // 3 and 4 are never touched
    const std::vector<float> g = RandomFloats(2, step);
    Train(table.get(), {id}, g, 0.01f);
    TableOracle::Sums sums;
    for (const auto& [known, row] : oracle.rows()) sums[known] = {0.0f, 0.0f};
    sums[id] = g;
    oracle.Update({sums}, {0.01f});
    const std::vector<float> read = Read(table.get(), all);
    for (int i = 0; i < 8; ++i) ASSERT_NEAR(read[i], oracle.Read(all[i / 2])[i % 2], 1e-6) << step;
  }
}

TEST_F(TableTest, TheSameBitsForAnyNumberOfThreads) {
  for (const int64_t input_dim : {0, 30000}) {
    Exported expected;
    std::vector<float> expected_values;
    for (const int num_threads : kThreadCounts) {
      ThreadExecutor executor(num_threads);
      const RowLayout layout(5, {Group(1, OptimizerKind::kFtrl), Group(7, OptimizerKind::kAdagrad)});
      const auto table = MakeTable(layout, input_dim);
      std::vector<float> seen;
      for (int step = 0; step < 4; ++step) {
        TestUse plain(PowerLawIds(9000, 30000, 1.05, step)), bags(PowerLawIds(9000, 30000, 1.05, 50 + step));
        std::vector<int64_t> splits;
        for (int64_t i = 0; i <= 9000; i += 3) splits.push_back(i);
        bags.Combine(Combiner::kSqrtN, splits, RandomFloats(9000, 60 + step, 0.5f, 1.0f));
        for (TestUse* use : {&plain, &bags}) {
          ASSERT_TRUE(use->Lookup(table.get(), true, &executor).ok());
          seen.insert(seen.end(), use->values().begin(), use->values().end());
        }
        const std::vector<float> g = RandomFloats(9000 * 8, 70 + step);
        ASSERT_TRUE(
            PushAll(table.get(), {plain.MakeGradient(layout, g), bags.MakeGradient(layout, g)}, {0.1f, 0.1f}, &executor)
                .ok());
      }
      const Exported all = ExportAll(table.get(), layout.row_floats(), 5000, &executor);
      if (num_threads == kThreadCounts[0]) {
        expected = all;
        expected_values = seen;
      }
      ASSERT_EQ(all.ids, expected.ids) << num_threads;
      ASSERT_EQ(all.values, expected.values) << num_threads;
      ASSERT_EQ(seen, expected_values) << num_threads;
    }
  }
}

}  // namespace
}  // namespace sfctr
