// SPDX-License-Identifier: Apache-2.0
#include "ops/core/unique.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

#include "tests/core/test_util.h"

namespace sfctr {
namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

struct Result {
  std::vector<int64_t> unique_ids;
  std::vector<int32_t> inverse;
};

Result Oracle(const std::vector<int64_t>& ids, std::optional<int64_t> padding_id) {
  Result result;
  std::unordered_map<int64_t, int32_t> numbers;
  for (const int64_t id : ids) {
    if (padding_id == id) {
      result.inverse.push_back(kPadding);
      continue;
    }
    const auto [it, is_new] = numbers.emplace(id, static_cast<int32_t>(numbers.size()));
    if (is_new) result.unique_ids.push_back(id);
    result.inverse.push_back(it->second);
  }
  return result;
}

Result RunUnique(const std::vector<int64_t>& ids, std::optional<int64_t> padding_id, int num_threads) {
  ThreadExecutor executor(num_threads);
  Result result;
  const auto n = static_cast<int64_t>(ids.size());
  result.unique_ids.resize(n);
  result.inverse.resize(n);
  result.unique_ids.resize(
      Unique(ids.data(), n, padding_id, result.unique_ids.data(), result.inverse.data(), &executor));
  return result;
}

// The result is the oracle's for every number of threads.
void Check(const std::vector<int64_t>& ids, std::optional<int64_t> padding_id = std::nullopt) {
  const Result expected = Oracle(ids, padding_id);
  for (const int num_threads : kThreadCounts) {
    const Result result = RunUnique(ids, padding_id, num_threads);
    ASSERT_EQ(result.unique_ids, expected.unique_ids) << num_threads << " threads, " << ids.size() << " ids";
    ASSERT_EQ(result.inverse, expected.inverse) << num_threads << " threads, " << ids.size() << " ids";
  }
}

// Below, at and above the size from which threads work together, and more partitions than one.
constexpr int64_t kSizes[] = {1, 2, 17, 1000, 16383, 16384, 16385, 50000, 300000};

TEST(UniqueTest, NoIds) {
  Check({});
  Check({}, 0);
}

TEST(UniqueTest, KeepsTheOrderOfFirstAppearance) {
  const Result result = RunUnique({7, -3, 7, 0, -3, 9}, std::nullopt, 1);
  EXPECT_EQ(result.unique_ids, (std::vector<int64_t>{7, -3, 0, 9}));
  EXPECT_EQ(result.inverse, (std::vector<int32_t>{0, 1, 0, 2, 1, 3}));
}

TEST(UniqueTest, LeavesPaddingOut) {
  const Result result = RunUnique({0, 5, 0, 6, 5}, 0, 1);
  EXPECT_EQ(result.unique_ids, (std::vector<int64_t>{5, 6}));
  EXPECT_EQ(result.inverse, (std::vector<int32_t>{kPadding, 0, kPadding, 1, 0}));
}

TEST(UniqueTest, AllTheSame) {
  for (const int64_t n : kSizes) Check(std::vector<int64_t>(n, -17));
}

TEST(UniqueTest, AllPadding) {
  for (const int64_t n : kSizes) Check(std::vector<int64_t>(n, -17), -17);
}

TEST(UniqueTest, AllDistinct) {
  for (const int64_t n : kSizes) {
    std::vector<int64_t> ids(n);
    for (int64_t i = 0; i < n; ++i) ids[i] = (n - i) * (i % 2 == 0 ? 1 : -1);
    Check(ids);
  }
}

TEST(UniqueTest, PowerLawIdsWithAndWithoutPadding) {
  for (const int64_t n : kSizes) {
    const std::vector<int64_t> ids = PowerLawIds(n, 100000, 1.05, n);
    Check(ids);
    Check(ids, ids[n / 2]);
    Check(ids, -1);
  }
}

TEST(UniqueTest, ExtremeAndNegativeIds) {
  const std::vector<int64_t> values = {kMin, kMin + 1, -1, 0, 1, kMax - 1, kMax};
  for (const int64_t n : kSizes) {
    Random random(n);
    std::vector<int64_t> ids(n);
    for (int64_t& id : ids) id = values[random.Below(static_cast<int64_t>(values.size()))];
    Check(ids);
    for (const int64_t padding_id : values) Check(ids, padding_id);
  }
}

TEST(UniqueTest, IdsOfOneHash) {
  for (const int64_t n : {int64_t{1000}, int64_t{20000}}) {
    std::vector<int64_t> ids(n);
    for (int64_t i = 0; i < n; ++i) ids[i] = IdWithHash(0x12345678u, static_cast<uint32_t>(i % 500));
    Check(ids);
  }
}

TEST(UniqueTest, IdsOfOnePartition) {
  // Equal upper halves of the hash, different lower ones: all ids meet in one partition.
  std::vector<int64_t> ids(40000);
  for (int64_t i = 0; i < 40000; ++i) ids[i] = IdWithHash(0xABCD0000u | static_cast<uint32_t>(i % 30011), 0);
  Check(ids);
}

TEST(UniqueTest, MorePartitionsThanThreadsOverManySeeds) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    const int64_t n = 16384 + random.Below(60000);
    std::vector<int64_t> ids(n);
    const int64_t vocabulary = 1 + random.Below(2 * n);
    for (int64_t& id : ids) id = random.Below(vocabulary) - vocabulary / 2;
    Check(ids, seed % 2 == 0 ? std::nullopt : std::optional<int64_t>(0));
  }
}

}  // namespace
}  // namespace sfctr
