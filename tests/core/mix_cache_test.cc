// SPDX-License-Identifier: Apache-2.0
#include "ops/core/mix_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/core/table_oracle.h"
#include "tests/core/test_util.h"

namespace sfctr {
namespace {

constexpr int64_t kBatch = 40;
constexpr CachePolicy kPolicies[] = {CachePolicy::kLru, CachePolicy::kLfu, CachePolicy::kLookAhead};

RowLayout Layout(OptimizerKind kind, int64_t dim = 3, bool catch_up = false) {
  ColumnGroup group = Group(dim, kind);
  group.optimizer.catch_up = catch_up;
  return RowLayout(7, {group, Group(1, OptimizerKind::kSgd)});
}

std::shared_ptr<MixCache> MakeCache(int64_t rows, CachePolicy policy, int prepare_ahead = 0, EmulatedLink link = {}) {
  CacheOptions options;
  options.num_rows = rows;
  options.policy = policy;
  options.prepare_ahead = prepare_ahead;
  options.link = link;
  std::shared_ptr<MixCache> cache;
  EXPECT_TRUE(MixCache::Create(options, &cache).ok());
  return cache;
}

std::shared_ptr<Table> TableWith(std::shared_ptr<MixCache> cache, const RowLayout& layout, int64_t input_dim = 0) {
  std::shared_ptr<Table> table;
  EXPECT_TRUE(Table::Create("t", input_dim, layout, std::move(cache), {}, &table).ok());
  return table;
}

// Whole rows by id, as bits.
std::map<int64_t, std::vector<uint32_t>> Content(Table* table) {
  InlineExecutor executor;
  const int64_t width = table->layout().row_floats();
  const Exported all = ExportAll(table, width, 100, &executor);
  std::map<int64_t, std::vector<uint32_t>> rows;
  for (size_t i = 0; i < all.ids.size(); ++i) {
    std::vector<uint32_t> bits(width);
    memcpy(bits.data(), all.values.data() + i * width, 4 * width);
    rows[all.ids[i]] = bits;
  }
  return rows;
}

class Trainer {
 public:
  Trainer(std::shared_ptr<Table> table, int lookahead) : table_(std::move(table)), lookahead_(lookahead) {}

  // Trains on the ids, announcing `lookahead` batches before; returns all that lookups gave.
  std::vector<float> Train(const std::vector<std::vector<int64_t>>& steps) {
    std::vector<TestUse> uses;
    for (const auto& ids : steps) uses.emplace_back(ids);
    std::vector<float> seen;
    size_t announced = 0;
    for (size_t step = 0; step < steps.size(); ++step) {
      for (; lookahead_ > 0 && announced < std::min(steps.size(), step + lookahead_); ++announced) {
        table_->Announce(uses[announced].Part(table_.get()), ++number_);
      }
      TestUse& use = uses[step];
      EXPECT_TRUE(use.Lookup(table_.get(), true, &executor_).ok());
      seen.insert(seen.end(), use.values().begin(), use.values().end());
      if (step % 5 == 3) {  // a forward pass alone
        uses[step] = TestUse(std::vector<int64_t>{});
        continue;
      }
      const std::vector<float> gradients = RandomFloats(use.size() * 4, step);
      EXPECT_TRUE(
          PushAll(table_.get(), {use.MakeGradient(table_->layout(), gradients)}, {0.1f, 0.05f}, &executor_).ok());
      if (step % 7 == 5) {
        TestUse other(steps[(step + 3) % steps.size()]);
        EXPECT_TRUE(other.Lookup(table_.get(), false, &executor_).ok());
        seen.insert(seen.end(), other.values().begin(), other.values().end());
      }
      uses[step] = TestUse(std::vector<int64_t>{});  // the end of its batch
    }
    return seen;
  }

 private:
  const std::shared_ptr<Table> table_;
  const int lookahead_;
  int64_t number_ = 0;
  ThreadExecutor executor_{2};
};

std::vector<std::vector<int64_t>> Steps(int64_t count, uint64_t seed) {
  std::vector<std::vector<int64_t>> steps;
  for (int64_t s = 0; s < count; ++s) steps.push_back(PowerLawIds(kBatch, 500, 1.05, seed * 1000 + s));
  return steps;
}

int64_t LargestBatch(const std::vector<std::vector<int64_t>>& steps) {
  size_t largest = 0;
  for (const auto& ids : steps) largest = std::max(largest, TestUse(ids).unique_ids().size());
  return static_cast<int64_t>(largest);
}

struct Kind {
  OptimizerKind kind;
  bool catch_up;
};

TEST(MixCacheTest, TheCacheNeverShows) {
  const auto steps = Steps(60, 1);
  const int64_t least = LargestBatch(steps);
  const Kind kinds[] = {{OptimizerKind::kSgd, false},     {OptimizerKind::kMomentum, false},
                        {OptimizerKind::kAdagrad, false}, {OptimizerKind::kRowWiseAdagrad, false},
                        {OptimizerKind::kAdam, false},    {OptimizerKind::kAdam, true},
                        {OptimizerKind::kFtrl, false}};
  for (const Kind& kind : kinds) {
    const RowLayout layout = Layout(kind.kind, 3, kind.catch_up);
    for (const int64_t input_dim : {0, 500}) {
      const auto plain = TableWith(nullptr, layout, input_dim);
      const std::vector<float> expected = Trainer(plain, 0).Train(steps);
      const auto content = Content(plain.get());
      for (const CachePolicy policy : kPolicies) {
        for (const int64_t rows : {least, 2 * least, int64_t{1000}}) {
          for (const int lookahead : {0, 1, 4}) {
            const auto table = TableWith(MakeCache(rows, policy, lookahead > 0 ? 2 : 0), layout, input_dim);
            ASSERT_EQ(Trainer(table, lookahead).Train(steps), expected) << rows << " rows, look-ahead " << lookahead;
            ASSERT_EQ(Content(table.get()), content) << rows << " rows, look-ahead " << lookahead;
          }
        }
      }
    }
  }
}

TEST(MixCacheTest, RowsAreOnTheirWayOverASlowLink) {
  // Lookups come while their rows, and those of the batch before, are being moved.
  const auto steps = Steps(12, 2);
  const RowLayout layout = Layout(OptimizerKind::kAdagrad);
  const auto plain = TableWith(nullptr, layout);
  const std::vector<float> expected = Trainer(plain, 0).Train(steps);
  const auto table = TableWith(MakeCache(3 * LargestBatch(steps), CachePolicy::kLru, 3, {1e6, 2e-3}), layout);
  EXPECT_EQ(Trainer(table, 4).Train(steps), expected);
  EXPECT_EQ(Content(table.get()), Content(plain.get()));
}

TEST(MixCacheTest, TablesShareACache) {
  const auto cache = MakeCache(120, CachePolicy::kLfu, 1);
  const RowLayout narrow = Layout(OptimizerKind::kSgd, 2);
  const RowLayout wide = Layout(OptimizerKind::kAdam, 3);
  const auto a = TableWith(cache, narrow);
  const auto b = TableWith(cache, Layout(OptimizerKind::kAdam, 3));
  const auto plain = TableWith(nullptr, wide);
  Trainer run(b, 2), expected(plain, 0);
  InlineExecutor executor;
  for (uint64_t round = 0; round < 20; ++round) {
    TestUse use(PowerLawIds(kBatch, 500, 1.05, round));
    ASSERT_TRUE(use.Lookup(a.get(), true, &executor).ok());
    const std::vector<float> ones(use.size() * 3, 1.0f);
    ASSERT_TRUE(PushAll(a.get(), {use.MakeGradient(a->layout(), ones)}, {0.1f, 0.1f}, &executor).ok());
    ASSERT_EQ(run.Train(Steps(3, round)), expected.Train(Steps(3, round)));
  }
  EXPECT_EQ(Content(b.get()), Content(plain.get()));
  EXPECT_GT(cache->stats(a->cache_number()).num_written_back, 0);
}

TEST(MixCacheTest, AnUnfinishedBatchKeepsItsRows) {
  const RowLayout layout = Layout(OptimizerKind::kSgd);
  const auto table = TableWith(MakeCache(4, CachePolicy::kLru), layout);
  InlineExecutor executor;
  TestUse first({1, 2, 3}), second({4, 5});
  ASSERT_TRUE(first.Lookup(table.get(), true, &executor).ok());
  const Status status = second.Lookup(table.get(), true, &executor);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(),
            "the batches in flight need 5 slots; the cache has 4. Give it at least 5 rows, or lower the batch size.");
  const std::vector<float> ones(12, 1.0f);
  ASSERT_TRUE(PushAll(table.get(), {first.MakeGradient(layout, ones)}, {1.0f, 1.0f}, &executor).ok());
  EXPECT_EQ(StatsOf(table.get(), true, &executor).num_rows, 3);
  // Its update has ended: now there is room.
  ASSERT_TRUE(second.Lookup(table.get(), true, &executor).ok());
}

TEST(MixCacheTest, ABatchHeldForLongKeepsOnlyWhatItUses) {
  const RowLayout layout = Layout(OptimizerKind::kAdagrad);
  const auto steps = Steps(60, 4);
  for (const CachePolicy policy : kPolicies) {
    const auto plain = TableWith(nullptr, layout);
    const auto table = TableWith(MakeCache(LargestBatch(steps) + 3, policy, 2), layout);
    InlineExecutor executor;
    TestUse held({1000, 1001, 1002});
    ASSERT_TRUE(held.Lookup(table.get(), true, &executor).ok());
    ASSERT_EQ(Trainer(table, 3).Train(steps), Trainer(plain, 0).Train(steps));
  }
}

TEST(MixCacheTest, ABatchThatDoesNotFitChangesNothing) {
  const RowLayout layout = Layout(OptimizerKind::kSgd);
  const auto table = TableWith(MakeCache(2, CachePolicy::kLfu, 1), layout);
  InlineExecutor executor;
  TestUse use({1, 2, 3});
  table->Announce(use.Part(table.get()), 1);
  const Status status = use.Lookup(table.get(), true, &executor);
  EXPECT_EQ(
      status.message(),
      "a batch of 3 distinct ids needs as many slots; the cache has 2. Give it at least 3 rows, or lower the batch "
      "size.");
  EXPECT_EQ(StatsOf(table.get(), true, &executor).num_rows, 0);
  // Reading needs no slots.
  EXPECT_TRUE(use.Lookup(table.get(), false, &executor).ok());
  Trainer(table, 1).Train({{1, 2}, {2, 3}});
  EXPECT_EQ(StatsOf(table.get(), true, &executor).num_rows, 3);
}

TEST(MixCacheTest, AbandonedBatchesLetGoOfTheirRows) {
  const RowLayout layout = Layout(OptimizerKind::kSgd);
  const auto table = TableWith(MakeCache(3, CachePolicy::kLru, 2), layout);
  InlineExecutor executor;
  for (int64_t i = 0; i < 200; ++i) {
    TestUse announced({3 * i, 3 * i + 1}), forward({5, 3 * i + 2});
    table->Announce(announced.Part(table.get()), i + 1);
    ASSERT_TRUE(forward.Lookup(table.get(), true, &executor).ok()) << i;
  }
  EXPECT_EQ(StatsOf(table.get(), true, &executor).num_rows, 0);
}

TEST(MixCacheTest, PartsOfASharedBatchAreUpdatedAlone) {
  // Adam moves every row that it touches: ids of the other feature must not be touched.
  const RowLayout layout(7, {Group(2, OptimizerKind::kAdam)});
  InlineExecutor executor;
  for (const bool cached : {false, true}) {
    const auto table = TableWith(cached ? MakeCache(10, CachePolicy::kLru) : nullptr, layout);
    TestUse both({1, 2, 3});
    ASSERT_TRUE(both.Lookup(table.get(), true, &executor).ok());
    Gradient gradient = both.MakeGradient(layout, {1, 1, 1, 1, 1, 1});
    gradient.positions.num_ids = 2;  // the feature with ids 1 and 2
    ASSERT_TRUE(PushAll(table.get(), {gradient}, {0.1f}, &executor).ok());
    EXPECT_EQ(StatsOf(table.get(), true, &executor).num_rows, 2);
    EXPECT_EQ(Content(table.get()).count(3), 0u);
  }
}

TEST(MixCacheTest, ImportReachesCachedRows) {
  const RowLayout layout(7, {Group(2, OptimizerKind::kSgd)});
  const auto table = TableWith(MakeCache(10, CachePolicy::kLru), layout);
  InlineExecutor executor;
  TestUse use({1, 2});
  ASSERT_TRUE(use.Lookup(table.get(), true, &executor).ok());
  const int64_t ids[] = {2, 9};
  const float rows[] = {5, 6, 7, 8};
  ASSERT_TRUE(table->Import(ids, 2, rows, 2, &executor).ok());
  TestUse read({2, 9});
  for (const bool training : {false, true}) {
    ASSERT_TRUE(read.Lookup(table.get(), training, &executor).ok());
    EXPECT_EQ(read.values(), (std::vector<float>{5, 6, 7, 8}));
  }
}

TEST(MixCacheTest, TrainsReadsAndExportsBesideTheHostManager) {
  const auto steps = Steps(80, 3);
  const RowLayout layout = Layout(OptimizerKind::kAdagrad);
  const auto plain = TableWith(nullptr, layout);
  Trainer(plain, 0).Train(steps);
  const auto cache = MakeCache(150, CachePolicy::kLookAhead, 3);
  const auto table = TableWith(cache, layout);
  const auto other = TableWith(cache, layout);
  std::atomic<bool> done{false};
  std::thread reader([&] {
    InlineExecutor executor;
    while (!done) {
      TestUse use(PowerLawIds(kBatch, 500, 1.05, 5));
      EXPECT_TRUE(use.Lookup(table.get(), false, &executor).ok());
      Content(table.get());
      StatsOf(table.get(), true, &executor);
      cache->stages()->intervals();
    }
  });
  std::thread second([&] { Trainer(other, 2).Train(steps); });
  Trainer(table, 4).Train(steps);
  second.join();
  done = true;
  reader.join();
  // Reads in the middle of a step flush, and so may split nothing here: every step has one use.
  EXPECT_EQ(Content(table.get()), Content(plain.get()));
  EXPECT_EQ(Content(other.get()), Content(plain.get()));
}

}  // namespace
}  // namespace sfctr
