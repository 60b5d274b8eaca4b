// SPDX-License-Identifier: Apache-2.0
// Lookups, pushes, exports, imports and figures from several threads at once. The checks are few, because any order is
// right; the sanitizers do the rest.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "ops/core/table.h"
#include "tests/core/table_oracle.h"
#include "tests/core/test_util.h"

namespace sfctr {
namespace {

constexpr int kRounds = 60;
constexpr int64_t kVocabulary = 3000;

void RunTogether(const std::vector<std::function<void()>>& tasks) {
  std::vector<std::thread> threads;
  for (const auto& task : tasks) threads.emplace_back(task);
  for (std::thread& thread : threads) thread.join();
}

TEST(TableConcurrencyTest, SumsOfSgdAreCompleteInWhateverOrder) {
  for (const int64_t input_dim : {int64_t{0}, kVocabulary}) {
    // Weights begin at 0 and every gradient is -1 with a learning rate of 1: a weight counts its uses, exactly.
    const RowLayout layout(1, {Group(3, OptimizerKind::kSgd, {})});
    const auto table = MakeTable(layout, input_dim);
    constexpr int kThreads = 4;
    std::vector<std::function<void()>> trainers;
    std::atomic<int> failures{0};
    for (int thread = 0; thread < kThreads; ++thread) {
      trainers.push_back([&, thread] {
        ThreadExecutor executor(1 + thread % 2);
        for (int round = 0; round < kRounds; ++round) {
          TestUse use(PowerLawIds(500, kVocabulary, 1.05, 1000 * thread + round));
          failures += !use.Lookup(table.get(), true, &executor).ok();
          Gradient gradient = use.MakeGradient(layout, std::vector<float>(1500, -1.0f));
          failures += !PushAll(table.get(), {gradient}, {1.0f}, &executor).ok();
        }
      });
    }
    RunTogether(trainers);
    EXPECT_EQ(failures, 0);

    std::unordered_map<int64_t, float> counts;
    for (int thread = 0; thread < kThreads; ++thread) {
      for (int round = 0; round < kRounds; ++round) {
        for (const int64_t id : PowerLawIds(500, kVocabulary, 1.05, 1000 * thread + round)) ++counts[id];
      }
    }
    InlineExecutor executor;
    const Exported all = ExportAll(table.get(), 3, 100, &executor);
    ASSERT_EQ(all.ids.size(), counts.size());
    for (size_t i = 0; i < all.values.size(); ++i) ASSERT_EQ(all.values[i], counts[all.ids[i / 3]]);
  }
}

TEST(TableConcurrencyTest, EveryFunctionBesideEveryOther) {
  for (const int64_t input_dim : {int64_t{0}, kVocabulary}) {
    ColumnGroup deep = Group(4, OptimizerKind::kAdam);
    deep.optimizer.catch_up = true;
    const RowLayout layout(1, {Group(1, OptimizerKind::kFtrl), deep});
    const auto table = MakeTable(layout, input_dim);
    std::atomic<int> failures{0};
    const auto count = [&](const Status& status) { failures += !status.ok(); };

    const auto train = [&](int thread) {
      ThreadExecutor executor(2);
      for (int round = 0; round < kRounds; ++round) {
        TestUse plain(PowerLawIds(300, kVocabulary, 1.05, 100 * thread + round));
        TestUse bags(PowerLawIds(300, kVocabulary, 1.05, 7000 + 100 * thread + round));
        bags.Combine(Combiner::kMean, {0, 100, 100, 300});
        count(plain.Lookup(table.get(), true, &executor));
        count(bags.Lookup(table.get(), true, &executor));
        const std::vector<float> rates = {0.1f, 0.01f};
        std::vector<Gradient> first = {plain.MakeGradient(layout, RandomFloats(1500, round))};
        std::vector<Gradient> second = {bags.MakeGradient(layout, RandomFloats(15, round))};
        count(PushAll(table.get(), first, rates, &executor));
        count(PushAll(table.get(), second, rates, &executor));
      }
    };
    const auto read = [&](int thread) {
      ThreadExecutor executor(2);
      for (int round = 0; round < 2 * kRounds; ++round) {
        TestUse use(PowerLawIds(2000, kVocabulary, 1.05, 9000 + 100 * thread + round));
        count(use.Lookup(table.get(), false, &executor));
        for (const float value : use.values()) failures += !std::isfinite(value);
      }
    };
    const auto carry = [&] {
      InlineExecutor executor;
      for (int round = 0; round < kRounds / 3; ++round) {
        const int64_t width = round % 2 == 0 ? layout.row_floats() : layout.embedding_floats();
        const Exported all = ExportAll(table.get(), width, 500, &executor);
        count(all.status);
        count(table->Import(all.ids.data(), static_cast<int64_t>(all.ids.size()), all.values.data(), width, &executor));
      }
    };
    const auto look = [&] {
      InlineExecutor executor;
      int64_t rows = 0;
      for (int round = 0; round < 5 * kRounds; ++round) {
        const TableStats stats = StatsOf(table.get(), round % 2 == 0, &executor);
        failures += stats.num_rows < rows;  // rows never disappear
        rows = stats.num_rows;
        if (round % 50 == 49) table->Abandon({});
        if (round % 50 == 0) count(table->set_step(stats.step, &executor));
      }
    };
    RunTogether({[&] { train(0); }, [&] { train(1); }, [&] { read(0); }, [&] { read(1); }, carry, look});
    EXPECT_EQ(failures, 0);
  }
}

}  // namespace
}  // namespace sfctr
