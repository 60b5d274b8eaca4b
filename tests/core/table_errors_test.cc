// SPDX-License-Identifier: Apache-2.0
// What a table refuses, in which words, and that a refusal changes nothing.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "ops/core/table.h"
#include "tests/core/table_oracle.h"
#include "tests/core/test_util.h"

namespace sfctr {
namespace {

constexpr char kAdvice[] = ". No row was changed. Lower the learning rate, clip gradients, or check the inputs.";

RowLayout Layout(OptimizerKind kind = OptimizerKind::kSgd) { return RowLayout(7, {Group(2, kind)}); }

class TableErrorsTest : public testing::Test {
 protected:
  std::string Check(Table* table, const std::vector<Gradient>& gradients, std::vector<float> rates = {0.1f}) {
    const Status status = PushAll(table, gradients, rates, &executor_, /*push=*/false);
    EXPECT_EQ(status.code(), status.ok() ? StatusCode::kOk : StatusCode::kInvalidArgument);
    return status.message();
  }

  InlineExecutor executor_;
};

TEST_F(TableErrorsTest, CreateNamesTheRangeOfInputDim) {
  for (const int64_t input_dim : {int64_t{-1}, int64_t{4294967296}, std::numeric_limits<int64_t>::min()}) {
    std::shared_ptr<Table> table;
    const Status status = Table::Create("t", input_dim, Layout(), nullptr, {}, &table);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), "input_dim must be in [1, 4294967295], or 0 for any id; got " +
                                    std::to_string(input_dim) + ". Leave it out to accept any 64-bit id.");
    EXPECT_EQ(table, nullptr);
  }
}

TEST_F(TableErrorsTest, LookupRefusesIdsOutsideTheVocabularyAndExpectsNoGradientOfThem) {
  const auto table = MakeTable(Layout(), 10);
  TestUse bad({3, 10});
  const Status status = bad.Lookup(table.get(), true, &executor_);
  EXPECT_EQ(status.message(),
            "ids must be in [0, 10) (input_dim); got 10. Raise input_dim, or leave it out to accept any 64-bit id.");
  TestUse good({3});
  ASSERT_TRUE(good.Lookup(table.get(), true, &executor_).ok());
  const std::vector<float> g = {1, 1};
  ASSERT_TRUE(PushAll(table.get(), {good.MakeGradient(table->layout(), g)}, {0.1f}, &executor_).ok());
  EXPECT_EQ(StatsOf(table.get(), false, &executor_).step, 1);
}

TEST_F(TableErrorsTest, LookupRefusesSplitsAndWeightsThatDoNotFit) {
  const auto table = MakeTable(Layout());
  TestUse use({1, 2});
  use.Combine(Combiner::kSum, {0, 1});
  EXPECT_NE(use.Lookup(table.get(), true, &executor_).message().find("row_splits must go from 0"), std::string::npos);
  use.Combine(Combiner::kSum, {0, 2}, {1.0f, NAN});
  EXPECT_NE(use.Lookup(table.get(), true, &executor_).message().find("weights must be finite; got nan"),
            std::string::npos);
}

TEST_F(TableErrorsTest, GradientsThatAreNotFiniteAreNamedByIdAndChangeNothing) {
  const auto table = MakeTable(Layout());
  TestUse use({5, -8, 5, 0}, 0);
  ASSERT_TRUE(use.Lookup(table.get(), true, &executor_).ok());
  std::vector<float> g(8, 1.0f);
  EXPECT_EQ(Check(table.get(), {use.MakeGradient(table->layout(), g)}), "");
  g[3] = NAN;
  EXPECT_EQ(Check(table.get(), {use.MakeGradient(table->layout(), g)}),
            std::string("gradients must be finite; got nan for id -8") + kAdvice);
  g[3] = -INFINITY;
  EXPECT_EQ(Check(table.get(), {use.MakeGradient(table->layout(), g)}),
            std::string("gradients must be finite; got -inf for id -8") + kAdvice);
  g[3] = 0;
  g[6] = INFINITY;
  EXPECT_EQ(Check(table.get(), {use.MakeGradient(table->layout(), g)}), "");  // padding has no gradient
  table->Abandon({use.Part(table.get()).get()});
  EXPECT_EQ(StatsOf(table.get(), true, &executor_).num_rows, 0);
  EXPECT_EQ(StatsOf(table.get(), true, &executor_).step, 0);
}

TEST_F(TableErrorsTest, GradientsOfBagsThatAreNotFiniteAreNamedById) {
  const auto table = MakeTable(Layout());
  TestUse use({5, 6, 7});
  use.Combine(Combiner::kMean, {0, 2, 3});
  std::vector<float> g = {1, 1, 1, NAN};
  EXPECT_EQ(Check(table.get(), {use.MakeGradient(table->layout(), g)}),
            std::string("gradients must be finite; got nan for id 7") + kAdvice);
}

TEST_F(TableErrorsTest, TheSecondGradientAndTheSecondGroupAreCheckedToo) {
  const RowLayout layout(1, {Group(1, OptimizerKind::kSgd), Group(2, OptimizerKind::kSgd)});
  const auto table = MakeTable(layout);
  TestUse use({5, 6});
  const std::vector<float> good(6, 1.0f);
  std::vector<float> bad = good;
  bad[5] = NAN;
  EXPECT_EQ(Check(table.get(), {use.MakeGradient(layout, good), use.MakeGradient(layout, bad)}, {0.1f, 0.1f}),
            std::string("gradients must be finite; got nan for id 6") + kAdvice);
}

// The check once read the first num_outputs * dim floats, whatever the stride: it missed what lay further on, and
// blamed what lay between.
TEST_F(TableErrorsTest, GradientsWithAStrideAreCheckedWhereTheyAre) {
  const auto table = MakeTable(Layout());
  TestUse use({5, 6, 7});
  std::vector<float> g = {1, 1, NAN, 1, 1, NAN, 1, 1, NAN};
  Gradient gradient;
  gradient.batch = use.batch();
  gradient.positions = use.positions();
  gradient.columns.push_back({g.data(), 3, 2});
  EXPECT_EQ(Check(table.get(), {gradient}), "");
  g[7] = INFINITY;
  EXPECT_EQ(Check(table.get(), {gradient}), std::string("gradients must be finite; got inf for id 7") + kAdvice);
}

TEST_F(TableErrorsTest, ALargeGradientIsCheckedByAllThreads) {
  const auto table = MakeTable(Layout());
  std::vector<int64_t> ids(100000);
  for (int64_t i = 0; i < 100000; ++i) ids[i] = i;
  TestUse use(ids);
  ThreadExecutor executor(4);
  for (const int64_t bad : {0, 70001, 199999}) {
    std::vector<float> g(200000, 1.0f);
    g[bad] = NAN;
    const Status status = PushAll(table.get(), {use.MakeGradient(table->layout(), g)}, {0.1f}, &executor);
    EXPECT_EQ(status.message(), "gradients must be finite; got nan for id " + std::to_string(bad / 2) + kAdvice);
  }
}

TEST_F(TableErrorsTest, LearningRatesMustBeUsable) {
  const auto table = MakeTable(Layout());
  const auto ftrl = MakeTable(Layout(OptimizerKind::kFtrl));
  const std::string advice = ". Check the schedule or the callback that sets it.";
  EXPECT_EQ(Check(table.get(), {}, {0.0f}), "");
  EXPECT_EQ(Check(table.get(), {}, {NAN}), "learning_rate must be finite and not below 0; got nan" + advice);
  EXPECT_EQ(Check(table.get(), {}, {INFINITY}), "learning_rate must be finite and not below 0; got inf" + advice);
  EXPECT_EQ(Check(table.get(), {}, {-1.0f}), "learning_rate must be finite and not below 0; got -1.000000" + advice);
  EXPECT_EQ(Check(ftrl.get(), {}, {0.0f}), "learning_rate must be finite and above 0 (FTRL); got 0.000000" + advice);
  EXPECT_EQ(Check(ftrl.get(), {}, {0.1f}), "");
}

TEST_F(TableErrorsTest, SetStepNamesItsRange) {
  const auto table = MakeTable(Layout());
  EXPECT_EQ(table->set_step(-1, &executor_).message(), "step must be in [0, 2^32); got -1.");
  EXPECT_EQ(table->set_step(int64_t{1} << 32, &executor_).message(), "step must be in [0, 2^32); got 4294967296.");
  EXPECT_EQ(StatsOf(table.get(), true, &executor_).step, 0);
  EXPECT_TRUE(table->set_step((int64_t{1} << 32) - 1, &executor_).ok());
  EXPECT_EQ(StatsOf(table.get(), true, &executor_).step, 4294967295);
}

TEST_F(TableErrorsTest, ImportNamesWhatDoesNotFitAndChangesNothing) {
  const auto table = MakeTable(Layout(OptimizerKind::kAdagrad), 10);
  const std::vector<int64_t> ids = {1, 2, 1};
  const std::vector<float> values(30, 1.0f);
  EXPECT_EQ(
      table->Import(ids.data(), 3, values.data(), 3, &executor_).message(),
      "rows must be 2 floats wide (embedding) or 4 (embedding and optimizer state); got 3. Load them into a table "
      "of the same output_dim and optimizer.");
  EXPECT_EQ(table->Import(ids.data(), 3, values.data(), 2, &executor_).message(),
            "ids must be distinct; got 1 twice. Pass every id once.");
  const std::vector<int64_t> outside = {1, -2};
  EXPECT_EQ(table->Import(outside.data(), 2, values.data(), 2, &executor_).message(),
            "ids must be in [0, 10) (input_dim); got -2. Raise input_dim, or leave it out to accept any 64-bit id.");
  EXPECT_EQ(StatsOf(table.get(), true, &executor_).num_rows, 0);
}

TEST_F(TableErrorsTest, ExportNamesTheWidthsItHas) {
  const auto table = MakeTable(Layout(OptimizerKind::kAdagrad));
  EXPECT_EQ(ExportAll(table.get(), 3, 10, &executor_).status.message(),
            "width must be 2 (embedding) or 4 (whole row); got 3.");
}

}  // namespace
}  // namespace sfctr
