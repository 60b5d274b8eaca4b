// SPDX-License-Identifier: Apache-2.0
// Every optimizer beside a second implementation in double precision, written from the formulas of keras.optimizers.
#include "ops/core/optimizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/core/test_util.h"

namespace sfctr {
namespace {

using Vector = std::vector<double>;

constexpr int64_t kDim = 5;
constexpr int kSteps = 300;

struct Oracle {
  Optimizer config;
  Vector weights, first, second;

  Oracle(const Optimizer& config, const std::vector<float>& initial)
      : config(config), weights(initial.begin(), initial.end()), first(initial.size()), second(initial.size()) {
    const bool accumulates = config.kind == OptimizerKind::kAdagrad || config.kind == OptimizerKind::kFtrl ||
                             config.kind == OptimizerKind::kRowWiseAdagrad;
    if (accumulates) std::fill(first.begin(), first.end(), config.initial_accumulator);
  }

  void Regularize(Vector* g) const {
    for (size_t i = 0; i < g->size(); ++i) (*g)[i] += 2.0 * config.l2 * weights[i];
    if (config.clip_value > 0) {
      const double limit = config.clip_value;
      for (double& x : *g) x = std::clamp(x, -limit, limit);
    }
    if (config.clip_norm > 0) {
      double norm = 0;
      for (const double x : *g) norm += x * x;
      norm = std::sqrt(norm);
      for (double& x : *g) x *= std::min(1.0, config.clip_norm / norm);
    }
  }

  void Step(double lr, int t, Vector g) {
    Regularize(&g);
    const size_t n = g.size();
    switch (config.kind) {
      case OptimizerKind::kSgd:
        for (size_t i = 0; i < n; ++i) weights[i] -= lr * g[i];
        break;
      case OptimizerKind::kMomentum:
        for (size_t i = 0; i < n; ++i) {
          const double velocity = config.momentum * first[i] - lr * g[i];
          first[i] = velocity;
          weights[i] += config.nesterov ? config.momentum * velocity - lr * g[i] : velocity;
        }
        break;
      case OptimizerKind::kAdagrad:
        for (size_t i = 0; i < n; ++i) {
          first[i] += g[i] * g[i];
          weights[i] -= lr * g[i] / std::sqrt(first[i] + config.epsilon);
        }
        break;
      case OptimizerKind::kRowWiseAdagrad: {
        double mean = 0;
        for (const double x : g) mean += x * x / static_cast<double>(n);
        first[0] += mean;
        for (size_t i = 0; i < n; ++i) weights[i] -= lr * g[i] / std::sqrt(first[0] + config.epsilon);
        break;
      }
      case OptimizerKind::kAdam: {
        const double beta1 = 1.0 - config.one_minus_beta1;
        const double beta2 = 1.0 - config.one_minus_beta2;
        const double alpha = lr * std::sqrt(1 - std::pow(beta2, t)) / (1 - std::pow(beta1, t));
        for (size_t i = 0; i < n; ++i) {
          first[i] = beta1 * first[i] + (1 - beta1) * g[i];
          second[i] = beta2 * second[i] + (1 - beta2) * g[i] * g[i];
          weights[i] -= alpha * first[i] / (std::sqrt(second[i]) + config.epsilon);
        }
        break;
      }
      case OptimizerKind::kFtrl: {
        // McMahan et al., KDD 2013, algorithm 1, with Keras' beta and shrinkage.
        const double l2 = config.ftrl_l2 + config.beta / (2 * lr);
        for (size_t i = 0; i < n; ++i) {
          const double before = first[i];
          first[i] += g[i] * g[i];
          const double sigma = (std::pow(first[i], -config.lr_power) - std::pow(before, -config.lr_power)) / lr;
          second[i] += g[i] + 2 * config.l2_shrinkage * weights[i] - sigma * weights[i];
          const double sign = second[i] < 0 ? -1 : 1;
          const double quadratic = std::pow(first[i], -config.lr_power) / lr + 2 * l2;
          const bool small = std::abs(second[i]) <= config.l1;
          weights[i] = small ? 0.0 : (sign * config.l1 - second[i]) / quadratic;
        }
        break;
      }
    }
  }
};

// The row of a table, driven as Table drives it.
struct Row {
  Optimizer config;
  std::vector<float> weights, state;

  Row(const Optimizer& config, const std::vector<float>& initial) : config(config), weights(initial) {
    state.assign(StateSize(config, dim()) + 1, -77.0f);  // one float more, to see that nothing writes beyond
    InitializeState(config, dim(), state.data());
  }
  int64_t dim() const { return static_cast<int64_t>(weights.size()); }
  void Step(float lr, uint32_t t, std::vector<float> g) {
    UpdateRow(config, MakeUpdateScalars(config, lr, t), dim(), g.data(), weights.data(), state.data());
  }
};

void CheckAgainstOracle(const Optimizer& config, double tolerance = 2e-5, float scale = 1.0f, int64_t dim = kDim) {
  const std::vector<float> initial = RandomFloats(dim, 11);
  Row row(config, initial);
  Oracle oracle(config, initial);
  for (int t = 1; t <= kSteps; ++t) {
    const float lr = t < kSteps / 2 ? 0.05f : 0.01f;  // a schedule, in the middle of training
    const std::vector<float> g = RandomFloats(dim, 100 + t, -scale, scale);
    row.Step(lr, t, g);
    oracle.Step(lr, t, Vector(g.begin(), g.end()));
    for (int64_t i = 0; i < dim; ++i) {
      ASSERT_NEAR(row.weights[i], oracle.weights[i], tolerance * std::max(1.0, std::abs(oracle.weights[i])))
          << "step " << t << ", column " << i;
    }
  }
  EXPECT_EQ(row.state.back(), -77.0f);
}

Optimizer Make(OptimizerKind kind) {
  Optimizer config;
  config.kind = kind;
  return config;
}

TEST(OptimizerTest, Sgd) { CheckAgainstOracle(Make(OptimizerKind::kSgd)); }

TEST(OptimizerTest, SgdWithLearningRateZeroChangesNothing) {
  Row row(Make(OptimizerKind::kSgd), {1, 2, 3});
  row.Step(0.0f, 1, {5, 6, 7});
  EXPECT_EQ(row.weights, (std::vector<float>{1, 2, 3}));
}

TEST(OptimizerTest, MomentumWithAndWithoutNesterov) {
  for (const float momentum : {0.0f, 0.5f, 0.9f}) {
    Optimizer config = Make(OptimizerKind::kMomentum);
    config.momentum = momentum;
    CheckAgainstOracle(config);
    config.nesterov = true;
    CheckAgainstOracle(config);
  }
}

TEST(OptimizerTest, MomentumZeroIsSgd) {
  Row momentum(Make(OptimizerKind::kMomentum), {1, -2});
  Row sgd(Make(OptimizerKind::kSgd), {1, -2});
  for (uint32_t t = 1; t < 50; ++t) {
    momentum.Step(0.1f, t, RandomFloats(2, t));
    sgd.Step(0.1f, t, RandomFloats(2, t));
  }
  for (int i = 0; i < 2; ++i) EXPECT_NEAR(momentum.weights[i], sgd.weights[i], 1e-6);
}

TEST(OptimizerTest, AdagradWithSeveralInitialAccumulators) {
  for (const float initial : {0.0f, 0.1f, 3.0f}) {
    Optimizer config = Make(OptimizerKind::kAdagrad);
    config.initial_accumulator = initial;
    CheckAgainstOracle(config);
    CheckAgainstOracle(config, 2e-5, 1e-4f);
  }
}

TEST(OptimizerTest, AdagradWithoutGradientAndAccumulatorMovesNothing) {
  Optimizer config = Make(OptimizerKind::kAdagrad);
  config.initial_accumulator = 0.0f;
  Row row(config, {1, 2});
  row.Step(0.1f, 1, {0, 0});
  EXPECT_EQ(row.weights, (std::vector<float>{1, 2}));
}

TEST(OptimizerTest, RowWiseAdagrad) {
  CheckAgainstOracle(Make(OptimizerKind::kRowWiseAdagrad));
  EXPECT_EQ(StateSize(Make(OptimizerKind::kRowWiseAdagrad), 64), 1);
}

TEST(OptimizerTest, RowWiseAdagradOfWidthOneIsAdagrad) {
  Row row_wise(Make(OptimizerKind::kRowWiseAdagrad), {0.5f});
  Row adagrad(Make(OptimizerKind::kAdagrad), {0.5f});
  for (uint32_t t = 1; t < 50; ++t) {
    row_wise.Step(0.1f, t, RandomFloats(1, t));
    adagrad.Step(0.1f, t, RandomFloats(1, t));
  }
  EXPECT_EQ(row_wise.weights, adagrad.weights);
}

TEST(OptimizerTest, Adam) {
  CheckAgainstOracle(Make(OptimizerKind::kAdam), 3e-5);
  CheckAgainstOracle(Make(OptimizerKind::kAdam), 3e-5, 1e-3f);
  Optimizer config = Make(OptimizerKind::kAdam);
  config.beta1 = 0.5f;
  config.one_minus_beta1 = 0.5f;
  config.beta2 = 0.9f;
  config.one_minus_beta2 = 0.1f;
  config.epsilon = 1e-3f;
  CheckAgainstOracle(config, 3e-5);
}

TEST(OptimizerTest, AdamWithCatchUpIsAdamWhenEveryStepTouchesTheRow) {
  Optimizer config = Make(OptimizerKind::kAdam);
  Row plain(config, RandomFloats(kDim, 3));
  config.catch_up = true;
  Row row(config, RandomFloats(kDim, 3));
  for (uint32_t t = 1; t < 100; ++t) {
    plain.Step(0.01f, t, RandomFloats(kDim, t));
    row.Step(0.01f, t, RandomFloats(kDim, t));
  }
  EXPECT_EQ(row.weights, plain.weights);
}

TEST(OptimizerTest, FtrlOverItsParameters) {
  for (const float power : {-0.5f, -0.3f, -1.0f, 0.0f}) {
    Optimizer config = Make(OptimizerKind::kFtrl);
    config.lr_power = power;
    const double tolerance = power == 0.0f ? 2e-4 : 5e-5;
    CheckAgainstOracle(config, tolerance);
    config.l1 = 0.2f;
    CheckAgainstOracle(config, tolerance);
    config.ftrl_l2 = 0.3f;
    CheckAgainstOracle(config, tolerance);
    config.beta = 0.7f;
    CheckAgainstOracle(config, tolerance);
    config.l2_shrinkage = 0.05f;
    CheckAgainstOracle(config, tolerance);
  }
}

TEST(OptimizerTest, FtrlWithL1GivesExactZeros) {
  Optimizer config = Make(OptimizerKind::kFtrl);
  config.l1 = 10.0f;
  Row row(config, {0.0f, 0.0f});
  for (uint32_t t = 1; t <= 50; ++t) {
    row.Step(0.1f, t, {t % 2 == 0 ? 0.1f : -0.1f, 1.0f});  // the first is noise, the second a signal
    ASSERT_EQ(row.weights[0], 0.0f);
  }
  EXPECT_LT(row.weights[1], -0.01f);
}

TEST(OptimizerTest, L2AddsTheGradientOfItsPenaltyToEveryOptimizer) {
  for (int kind = 0; kind <= static_cast<int>(OptimizerKind::kFtrl); ++kind) {
    SCOPED_TRACE(kind);
    Optimizer config = Make(static_cast<OptimizerKind>(kind));
    config.l2 = 0.1f;
    CheckAgainstOracle(config, 5e-5);
  }
}

TEST(OptimizerTest, ClippingOfEveryOptimizer) {
  for (int kind = 0; kind <= static_cast<int>(OptimizerKind::kFtrl); ++kind) {
    SCOPED_TRACE(kind);
    Optimizer config = Make(static_cast<OptimizerKind>(kind));
    config.clip_value = 0.4f;
    CheckAgainstOracle(config, 5e-5);
    config.clip_value = 0.0f;
    config.clip_norm = 0.6f;
    CheckAgainstOracle(config, 5e-5);
  }
}

TEST(OptimizerTest, OrderIsL2ThenClipValueThenClipNorm) {
  Optimizer config = Make(OptimizerKind::kSgd);
  config.l2 = 0.5f;
  config.clip_value = 3.0f;
  config.clip_norm = 2.5f;
  Row row(config, {2.0f, 0.0f});
  // (8, -9) + 2 * 0.5 * (2, 0) = (10, -9) -> (3, -3) -> norm 2.5.
  row.Step(1.0f, 1, {8.0f, -9.0f});
  const double component = 2.5 / std::sqrt(2.0);
  EXPECT_NEAR(row.weights[0], 2.0 - component, 1e-6);
  EXPECT_NEAR(row.weights[1], component, 1e-6);
}

TEST(OptimizerTest, ClippingLeavesSmallGradientsAlone) {
  Optimizer config = Make(OptimizerKind::kSgd);
  config.clip_value = 1.0f;
  config.clip_norm = 1.0f;
  Row row(config, {0.0f, 0.0f});
  row.Step(1.0f, 1, {0.25f, -0.5f});
  EXPECT_EQ(row.weights, (std::vector<float>{-0.25f, 0.5f}));
  row.Step(1.0f, 2, {0.0f, 0.0f});
  EXPECT_EQ(row.weights, (std::vector<float>{-0.25f, 0.5f}));
}

TEST(OptimizerTest, WidthOneAndOddWidths) {
  for (int kind = 0; kind <= static_cast<int>(OptimizerKind::kFtrl); ++kind) {
    for (const int64_t dim : {1, 3, 17}) CheckAgainstOracle(Make(static_cast<OptimizerKind>(kind)), 5e-5, 1.0f, dim);
  }
}

TEST(IntegerPowerTest, AgreesWithPow) {
  for (const double base : {0.0, 0.5, 0.9, 0.999, 1.0}) {
    for (const uint64_t n : {0, 1, 2, 3, 17, 1000, 123456}) {
      EXPECT_NEAR(IntegerPower(base, n), std::pow(base, n), 1e-10 * std::pow(base, n)) << base << "^" << n;
    }
  }
}

}  // namespace
}  // namespace sfctr
