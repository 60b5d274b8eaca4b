// SPDX-License-Identifier: Apache-2.0
#include "ops/core/hash.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "ops/core/id_index.h"
#include "tests/core/test_util.h"

namespace sfctr {
namespace {

constexpr uint64_t kGolden = 0x9E3779B97F4A7C15ull;

TEST(Mix64Test, GivesThePublishedSequenceOfSplitMix64) {
  EXPECT_EQ(Mix64(kGolden), 0xE220A8397B1DCDAFull);
  EXPECT_EQ(Mix64(2 * kGolden), 0x6E789E6AA1B965F4ull);
  EXPECT_EQ(Mix64(3 * kGolden), 0x06C45D188009454Full);
}

TEST(Mix64Test, IsABijection) {
  Random random(1);
  for (int i = 0; i < 10000; ++i) {
    const uint64_t x = random.Next();
    ASSERT_EQ(InverseMix64(Mix64(x)), x);
    ASSERT_EQ(Mix64(InverseMix64(x)), x);
  }
}

TEST(Mix64Test, EachInputBitFlipsHalfOfTheOutputBits) {
  Random random(2);
  std::vector<int64_t> flips(64 * 64, 0);
  constexpr int kTrials = 2000;
  for (int trial = 0; trial < kTrials; ++trial) {
    const uint64_t x = random.Next();
    for (int in = 0; in < 64; ++in) {
      const uint64_t changed = Mix64(x) ^ Mix64(x ^ (uint64_t{1} << in));
      for (int out = 0; out < 64; ++out) flips[in * 64 + out] += (changed >> out) & 1;
    }
  }
  // 6 standard deviations of a fair coin.
  const double allowed = 6 * 0.5 * std::sqrt(static_cast<double>(kTrials));
  for (int i = 0; i < 64 * 64; ++i) {
    ASSERT_NEAR(static_cast<double>(flips[i]), kTrials / 2.0, allowed) << i / 64 << " -> " << i % 64;
  }
}

TEST(IndexHashTest, IsStable) {
  EXPECT_EQ(IndexHash(0), 0xE220A839u);
  EXPECT_EQ(IndexHash(static_cast<int64_t>(kGolden)), 0x6E789E6Au);
  EXPECT_EQ(IndexHash(-1), static_cast<uint32_t>(Mix64(kGolden - 1) >> 32));
  EXPECT_NE(IndexHash(std::numeric_limits<int64_t>::min()), IndexHash(std::numeric_limits<int64_t>::max()));
}

TEST(IndexHashTest, SpreadsRegularIdsEvenlyOverShardsAndBuckets) {
  constexpr int64_t kIds = 1 << 18;
  for (const int64_t stride : {int64_t{1}, int64_t{64}, int64_t{1} << 20, int64_t{1} << 40, int64_t{-1}}) {
    std::vector<double> shards(IdIndex::kNumShards, 0);
    std::vector<double> buckets(64, 0);
    for (int64_t i = 0; i < kIds; ++i) {
      const uint32_t hash = IndexHash(static_cast<int64_t>(static_cast<uint64_t>(i) * static_cast<uint64_t>(stride)));
      ++shards[IdIndex::Shard(hash)];
      ++buckets[hash & 63];
    }
    const double expected = kIds / 64.0;
    for (int i = 0; i < 64; ++i) {
      ASSERT_NEAR(shards[i], expected, 6 * std::sqrt(expected)) << "stride " << stride;
      ASSERT_NEAR(buckets[i], expected, 6 * std::sqrt(expected)) << "stride " << stride;
    }
  }
}

TEST(IndexHashTest, CollidesOnlyWhereTheTestsWantIt) {
  for (uint32_t k = 0; k < 1000; ++k) {
    ASSERT_EQ(IndexHash(IdWithHash(0xDEADBEEFu, k)), 0xDEADBEEFu);
    ASSERT_NE(IdWithHash(0xDEADBEEFu, k), IdWithHash(0xDEADBEEFu, k + 1));
  }
}

TEST(ReduceRangeTest, StaysInsideAndCoversBothEnds) {
  for (const uint32_t n : {1u, 2u, 3u, 7u, 64u, 1000003u, 0x80000000u, 0xFFFFFFFFu}) {
    EXPECT_EQ(ReduceRange(0, n), 0u);
    EXPECT_EQ(ReduceRange(0xFFFFFFFFu, n), n - 1);
  }
}

TEST(ReduceRangeTest, IsEven) {
  std::vector<double> counts(7, 0);
  constexpr int64_t kHashes = 1 << 18;
  for (int64_t i = 0; i < kHashes; ++i) ++counts[ReduceRange(IndexHash(i), 7)];
  for (const double count : counts) EXPECT_NEAR(count, kHashes / 7.0, 6 * std::sqrt(kHashes / 7.0));
}

}  // namespace
}  // namespace sfctr
