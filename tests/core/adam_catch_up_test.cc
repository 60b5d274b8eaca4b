// SPDX-License-Identifier: Apache-2.0
// Adam with catch_up: a row that was skipped for some steps reads and trains as if dense Adam had given it gradients of
// zero.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "ops/core/optimizer.h"
#include "tests/core/test_util.h"

namespace sfctr {
namespace {

constexpr int64_t kDim = 4;
constexpr float kLearningRate = 0.001f;

Optimizer Adam(bool catch_up, double beta1 = 0.9, double beta2 = 0.999) {
  Optimizer config;
  config.kind = OptimizerKind::kAdam;
  config.catch_up = catch_up;
  config.beta1 = static_cast<float>(beta1);
  config.one_minus_beta1 = static_cast<float>(1 - beta1);
  config.beta2 = static_cast<float>(beta2);
  config.one_minus_beta2 = static_cast<float>(1 - beta2);
  return config;
}

struct Row {
  Optimizer config;
  std::vector<float> weights = RandomFloats(kDim, 5);
  std::vector<float> state;

  explicit Row(const Optimizer& config) : config(config), state(StateSize(config, kDim)) {
    InitializeState(config, kDim, state.data());
  }
  void Step(uint32_t t, std::vector<float> g, float lr = kLearningRate) {
    UpdateRow(config, MakeUpdateScalars(config, lr, t), kDim, g.data(), weights.data(), state.data());
  }
  std::vector<float> Read(uint32_t t, float lr = kLearningRate) const {
    Row copy = *this;
    AdamCatchUp(config, lr, t, kDim, copy.weights.data(), copy.state.data());
    return copy.weights;
  }
};

void ExpectNear(const std::vector<float>& got, const std::vector<float>& expected, double tolerance, uint32_t step) {
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], expected[i], tolerance * std::max(1.0f, std::abs(expected[i])))
        << "step " << step << ", column " << i;
  }
}

// Updates at the given steps, zero gradients between; compares what is read at every one of them and just before.
void CheckAgainstDense(const std::vector<uint32_t>& steps, double beta1, double beta2, float scale = 1.0f) {
  Row dense(Adam(false, beta1, beta2));
  Row row(Adam(true, beta1, beta2));
  uint32_t t = 0;
  for (const uint32_t step : steps) {
    while (++t < step) dense.Step(t, std::vector<float>(kDim, 0.0f));
    ExpectNear(row.Read(step - 1), dense.weights, 1e-6, step - 1);
    const std::vector<float> g = RandomFloats(kDim, step, -scale, scale);
    dense.Step(step, g);
    row.Step(step, g);
    ExpectNear(row.weights, dense.weights, 1e-6, step);
  }
}

TEST(AdamCatchUpTest, ShortGapsEqualDenseAdam) {
  CheckAgainstDense({1, 2, 4, 7, 8, 20, 21, 60, 61, 110}, 0.9, 0.999);
  CheckAgainstDense({3, 10, 13, 90}, 0.9, 0.999, 1e-5f);
}

TEST(AdamCatchUpTest, LongGapsEqualDenseAdam) {
  CheckAgainstDense({5, 178, 355, 356, 1500, 6000, 30000, 30001}, 0.9, 0.999);
  CheckAgainstDense({1, 200000, 200001}, 0.9, 0.999);
}

TEST(AdamCatchUpTest, OtherBetasEqualDenseAdam) {
  CheckAgainstDense({1, 3, 400, 2000, 9000}, 0.99, 0.9999);
  CheckAgainstDense({1, 3, 400, 2000}, 0.5, 0.9);
  CheckAgainstDense({1, 3, 400}, 0.0, 0.999);
}

// The second moment then fades as fast as the first, so that steps go on moving weights long after the first moment
// itself is small.
TEST(AdamCatchUpTest, BetasWhoseSecondMomentFadesFastEqualDenseAdam) {
  CheckAgainstDense({1, 500, 501, 2000}, 0.9, 0.9);
  CheckAgainstDense({1, 500, 501, 2000}, 0.9, 0.8);
  CheckAgainstDense({1, 1000, 3000}, 0.99, 0.95);
  CheckAgainstDense({1, 500, 501, 2000}, 0.9, 0.8, 100.0f);
}

TEST(AdamCatchUpTest, ReadingInPiecesEqualsReadingAtOnce) {
  Row row(Adam(true));
  row.Step(3, {1.0f, -0.5f, 0.25f, 2.0f});
  Row pieces = row;
  for (uint32_t t = 4; t <= 400; t += 9) {
    AdamCatchUp(pieces.config, kLearningRate, t, kDim, pieces.weights.data(), pieces.state.data());
  }
  ExpectNear(pieces.Read(400), row.Read(400), 1e-6, 400);
}

TEST(AdamCatchUpTest, ARowThatWasNeverUpdatedStays) {
  const Row row(Adam(true));
  EXPECT_EQ(row.Read(1000), row.weights);
}

TEST(AdamCatchUpTest, NothingIsOwedAtTheStepOfTheUpdateOrBefore) {
  Row row(Adam(true));
  row.Step(10, {1.0f, 1.0f, 1.0f, 1.0f});
  EXPECT_EQ(row.Read(10), row.weights);
  EXPECT_EQ(row.Read(4), row.weights);
  EXPECT_NE(row.Read(11), row.weights);
}

TEST(AdamCatchUpTest, AnUpdateAtAnEarlierStepThanTheLastCountsFromThere) {
  Row row(Adam(true));  // as after set_step() back to an older checkpoint's step
  row.Step(100, {1.0f, 1.0f, 1.0f, 1.0f});
  row.Step(5, {1.0f, 1.0f, 1.0f, 1.0f});
  uint32_t last_step;
  memcpy(&last_step, &row.state[2 * kDim], sizeof(last_step));
  EXPECT_EQ(last_step, 5u);
}

TEST(AdamCatchUpTest, LearningRateZeroMovesNoWeight) {
  Row row(Adam(true));
  row.Step(1, {1.0f, 1.0f, 1.0f, 1.0f});
  EXPECT_EQ(row.Read(50, 0.0f), row.weights);
}

TEST(AdamCatchUpTest, TheGreatestGapEndsAndStaysFinite) {
  Row row(Adam(true));
  row.Step(1, {1.0f, -1.0f, 1e-20f, 1e10f});
  for (const float weight : row.Read(0xFFFFFFFFu)) EXPECT_TRUE(std::isfinite(weight));
  row.Step(0xFFFFFFFFu, {1.0f, 1.0f, 1.0f, 1.0f});
  for (const float weight : row.weights) EXPECT_TRUE(std::isfinite(weight));
}

}  // namespace
}  // namespace sfctr
