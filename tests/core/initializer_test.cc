// SPDX-License-Identifier: Apache-2.0
#include "ops/core/initializer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/core/test_util.h"

namespace sfctr {
namespace {

constexpr uint64_t kGolden = 0x9E3779B97F4A7C15ull;

double NormalCdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

// Bisection on erfc: an oracle that shares nothing with the rational approximation.
double ExactQuantile(double p) {
  double low = -10;
  double high = 10;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (NormalCdf(middle) < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

// A row seed whose column 0 draws the integer `draw` of [0, 2^24).
uint64_t SeedThatDraws(uint32_t draw) { return InverseMix64(static_cast<uint64_t>(draw) << 40) - kGolden; }

struct Moments {
  double mean = 0, deviation = 0, skewness = 0, kurtosis = 0;
};

Moments MomentsOf(const std::vector<float>& values) {
  Moments m;
  const auto n = static_cast<double>(values.size());
  for (const float v : values) m.mean += v / n;
  double second = 0, third = 0, fourth = 0;
  for (const float v : values) {
    const double d = v - m.mean;
    second += d * d / n;
    third += d * d * d / n;
    fourth += d * d * d * d / n;
  }
  m.deviation = std::sqrt(second);
  m.skewness = third / std::pow(second, 1.5);
  m.kurtosis = fourth / (second * second);
  return m;
}

constexpr int64_t kIds = 25000;
constexpr int32_t kColumns = 8;

std::vector<float> Draw(const Initializer& initializer, uint64_t seed = 42) {
  std::vector<float> values;
  for (int64_t id = -kIds / 2; id < kIds / 2; ++id) {
    for (int32_t c = 0; c < kColumns; ++c) values.push_back(InitialValue(initializer, RowSeed(seed, id), c));
  }
  return values;
}

TEST(PortableLogTest, IsWithinItsStatedError) {
  double worst = 0;
  const auto check = [&](float x) {
    const double exact = std::log(static_cast<double>(x));
    if (x == 1.0f) {
      EXPECT_EQ(PortableLog(x), 0.0f);
    } else {
      worst = std::max(worst, std::abs(PortableLog(x) - exact) / std::abs(exact));
    }
  };
  for (float x = std::numeric_limits<float>::min(); x < 1e37f; x *= 1.0009765f) check(x);
  for (int k = -2000; k <= 2000; ++k) check(1.0f + static_cast<float>(k) / 8192.0f);
  for (float x = 0.70703f; x < 0.70715f; x = std::nextafter(x, 1.0f)) check(x);  // where the mantissa folds
  check(std::numeric_limits<float>::max());
  EXPECT_LT(worst, 2e-7);
}

// Single precision once cost four digits where the middle of the distribution meets its tails, at 0.024 and 0.976.
TEST(NormalQuantileTest, AgreesWithTheErrorFunction) {
  for (int k = 1; k < 4000; ++k) {
    const float p = static_cast<float>(k) / 4000.0f;
    ASSERT_NEAR(NormalQuantile(p), ExactQuantile(p), 3e-6) << p;
  }
}

TEST(NormalQuantileTest, AgreesInTheTails) {
  for (float p = 0.03f; p > 1e-8f; p *= 0.93f) ASSERT_NEAR(NormalQuantile(p), ExactQuantile(p), 4e-6) << p;
  for (float tail = 0.03f; tail > 1e-7f; tail *= 0.93f) {
    const float p = 1.0f - tail;
    ASSERT_NEAR(NormalQuantile(p), ExactQuantile(p), 4e-6) << p;
  }
}

TEST(NormalQuantileTest, IsOddAroundOneHalf) {
  EXPECT_EQ(NormalQuantile(0.5f), 0.0f);
  for (int k = 1; k < 512; ++k) {
    const float p = static_cast<float>(k) / 1024.0f;  // 1 - p is exact
    ASSERT_EQ(NormalQuantile(p), -NormalQuantile(1.0f - p)) << p;
  }
}

TEST(InitialValueTest, ConstantIsTheConstant) {
  for (const float value : Draw({InitializerKind::kConstant, 0.25f, 9.0f})) ASSERT_EQ(value, 0.25f);
}

TEST(InitialValueTest, UniformHasItsBoundsAndMoments) {
  const std::vector<float> values = Draw({InitializerKind::kUniform, -0.5f, 1.5f});
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  EXPECT_GE(*low, -0.5f);
  EXPECT_LT(*high, 1.5f);
  const Moments m = MomentsOf(values);
  EXPECT_NEAR(m.mean, 0.5, 0.008);
  EXPECT_NEAR(m.deviation, 2.0 / std::sqrt(12.0), 0.005);
  EXPECT_NEAR(m.skewness, 0.0, 0.02);
  EXPECT_NEAR(m.kurtosis, 1.8, 0.02);
}

TEST(InitialValueTest, NormalHasItsMoments) {
  const Moments m = MomentsOf(Draw({InitializerKind::kNormal, 3.0f, 0.5f}));
  EXPECT_NEAR(m.mean, 3.0, 0.007);
  EXPECT_NEAR(m.deviation, 0.5, 0.005);
  EXPECT_NEAR(m.skewness, 0.0, 0.04);
  EXPECT_NEAR(m.kurtosis, 3.0, 0.08);
}

TEST(InitialValueTest, NormalFollowsTheDistributionFunction) {
  std::vector<float> values = Draw({InitializerKind::kNormal, 0.0f, 1.0f});
  std::sort(values.begin(), values.end());
  double distance = 0;  // of Kolmogorov and Smirnov
  for (size_t i = 0; i < values.size(); ++i) {
    distance = std::max(distance, std::abs(NormalCdf(values[i]) - (i + 0.5) / values.size()));
  }
  EXPECT_LT(distance, 1.95 / std::sqrt(static_cast<double>(values.size())));  // probability 0.001
}

TEST(InitialValueTest, TruncatedNormalHasItsBoundsAndMoments) {
  const std::vector<float> values = Draw({InitializerKind::kTruncatedNormal, 1.0f, 0.1f});
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  EXPECT_GE(*low, 0.8f - 1e-6f);
  EXPECT_LE(*high, 1.2f + 1e-6f);
  const Moments m = MomentsOf(values);
  EXPECT_NEAR(m.mean, 1.0, 0.001);
  EXPECT_NEAR(m.deviation, 0.1 * 0.879626, 0.0006);  // of a normal cut at 2 standard deviations
  EXPECT_NEAR(m.skewness, 0.0, 0.02);
}

TEST(InitialValueTest, ExtremeDrawsStayFiniteAndInRange) {
  for (const uint32_t draw : {0u, 1u, 0x7FFFFFu, 0x800000u, 0xFFFFFEu, 0xFFFFFFu}) {
    const uint64_t seed = SeedThatDraws(draw);
    const float uniform = InitialValue({InitializerKind::kUniform, 0.0f, 1.0f}, seed, 0);
    EXPECT_EQ(uniform, static_cast<float>(draw) / 16777216.0f);
    const float normal = InitialValue({InitializerKind::kNormal, 0.0f, 1.0f}, seed, 0);
    EXPECT_TRUE(std::isfinite(normal)) << draw;
    EXPECT_LT(std::abs(normal), 5.7f) << draw;
    const float truncated = InitialValue({InitializerKind::kTruncatedNormal, 0.0f, 1.0f}, seed, 0);
    EXPECT_LE(std::abs(truncated), 2.0f + 2e-6f) << draw;
  }
}

TEST(InitialValueTest, IsAPureFunctionOfSeedIdAndColumn) {
  const Initializer initializer = {InitializerKind::kNormal, 0.0f, 1.0f};
  EXPECT_EQ(Draw(initializer), Draw(initializer));
  const float value = InitialValue(initializer, RowSeed(1, 2), 3);
  EXPECT_NE(value, InitialValue(initializer, RowSeed(2, 2), 3));
  EXPECT_NE(value, InitialValue(initializer, RowSeed(1, -2), 3));
  EXPECT_NE(value, InitialValue(initializer, RowSeed(1, 2), 4));
}

TEST(InitialValueTest, NeighboursAreUncorrelated) {
  const Initializer initializer = {InitializerKind::kUniform, -1.0f, 1.0f};
  const std::vector<float> values = Draw(initializer);
  const std::vector<float> others = Draw(initializer, 43);
  double columns = 0, ids = 0, seeds = 0;
  const auto n = static_cast<int64_t>(values.size()) - kColumns;
  for (int64_t i = 0; i < n; ++i) {
    columns += values[i] * values[i + 1];
    ids += values[i] * values[i + kColumns];
    seeds += values[i] * others[i];
  }
  const double allowed = 4 * std::sqrt(static_cast<double>(n)) / 3;  // 4 standard deviations
  EXPECT_LT(std::abs(columns), allowed);
  EXPECT_LT(std::abs(ids), allowed);
  EXPECT_LT(std::abs(seeds), allowed);
}

// A change here breaks saved tables: rows that were never updated would read otherwise after an upgrade.
TEST(InitialValueTest, IsStableOverVersions) {
  const uint64_t seed = RowSeed(7, -123456789012345);
  EXPECT_EQ(seed, 0x6E4C9DCD0C51DD8Full);
  EXPECT_EQ(InitialValue({InitializerKind::kUniform, -1.0f, 1.0f}, seed, 0), 0x1.93aee4p-1f);
  EXPECT_EQ(InitialValue({InitializerKind::kNormal, 0.0f, 1.0f}, seed, 1), 0x1.275ea2p-4f);
  EXPECT_EQ(InitialValue({InitializerKind::kTruncatedNormal, 0.0f, 1.0f}, seed, 2), 0x1.ad9e66p-1f);
}

}  // namespace
}  // namespace sfctr
