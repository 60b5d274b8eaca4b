// SPDX-License-Identifier: Apache-2.0
// Fused sparse optimizers: one call updates one column group of one row, `weights[dim]` and `state[StateSize]`.
//
// The formulas are those of keras.optimizers, so that training equals plain Keras up to rounding. All arithmetic is
// IEEE single precision in a fixed order; FTRL with a learning-rate power other than -0.5 alone uses powf.
// Layout of the state, in floats:
//   SGD            -
//   momentum       velocity[dim]
//   Adagrad        accumulator[dim]
//   row-wise       accumulator[1]
//   Adam           m[dim] v[dim], and last_step[1] (bits of a uint32) with catch_up
//   FTRL           accumulator[dim] linear[dim]
#ifndef TF_SFCTR_OPS_CORE_OPTIMIZER_H_
#define TF_SFCTR_OPS_CORE_OPTIMIZER_H_

#include <cmath>
#include <cstdint>
#include <cstring>

#include "ops/core/platform.h"

namespace sfctr {

enum class OptimizerKind : int32_t { kSgd, kMomentum, kAdagrad, kRowWiseAdagrad, kAdam, kFtrl };

struct Optimizer {
  OptimizerKind kind = OptimizerKind::kSgd;
  float initial_accumulator = 0.1f;  // Adagrad, row-wise Adagrad, FTRL
  float epsilon = 1e-7f;             // Adagrad, row-wise Adagrad, Adam
  float beta1 = 0.9f;                // Adam
  float one_minus_beta1 = 0.1f;      // Adam; of its own because 1 - beta loses digits in single precision
  float beta2 = 0.999f;              // Adam
  float one_minus_beta2 = 0.001f;    // Adam
  bool catch_up = false;             // Adam: a row makes up for the steps that did not touch it
  float momentum = 0.0f;             // momentum
  bool nesterov = false;             // momentum
  float lr_power = -0.5f;            // FTRL
  float l1 = 0.0f;                   // FTRL
  float ftrl_l2 = 0.0f;              // FTRL
  float l2_shrinkage = 0.0f;         // FTRL
  float beta = 0.0f;                 // FTRL
  float l2 = 0.0f;                   // any: adds 2 * l2 * weights to the gradient
  float clip_value = 0.0f;           // any: 0 means off; clips every element of the row's gradient
  float clip_norm = 0.0f;            // any: 0 means off; clips the L2 norm of the row's gradient
};

SFCTR_HD inline int64_t StateSize(const Optimizer& optimizer, int64_t dim) {
  switch (optimizer.kind) {
    case OptimizerKind::kSgd:
      return 0;
    case OptimizerKind::kMomentum:
      return dim;
    case OptimizerKind::kAdagrad:
      return dim;
    case OptimizerKind::kRowWiseAdagrad:
      return 1;
    case OptimizerKind::kAdam:
      return 2 * dim + (optimizer.catch_up ? 1 : 0);
    case OptimizerKind::kFtrl:
      return 2 * dim;
  }
  return 0;
}

// base^exponent by squaring, in double: the same on every executor.
SFCTR_HD inline double IntegerPower(double base, uint64_t exponent) {
  double result = 1.0;
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1) result *= base;
    base *= base;
  }
  return result;
}

// What is the same for all rows of one update.
struct UpdateScalars {
  float learning_rate = 0.0f;
  uint32_t step = 0;        // number of this update of the table, from 1
  float adam_alpha = 0.0f;  // learning rate with Adam's bias corrections of this step
};

// Single precision as Keras has it: early steps would differ by 3e-5 otherwise.
SFCTR_HD inline float AdamAlpha(float learning_rate, double beta1_power, double beta2_power) {
  return learning_rate * sqrtf(1.0f - static_cast<float>(beta2_power)) / (1.0f - static_cast<float>(beta1_power));
}

SFCTR_HD inline UpdateScalars MakeUpdateScalars(const Optimizer& optimizer, float learning_rate, uint32_t step) {
  UpdateScalars scalars;
  scalars.learning_rate = learning_rate;
  scalars.step = step;
  if (optimizer.kind == OptimizerKind::kAdam) {
    scalars.adam_alpha =
        AdamAlpha(learning_rate, IntegerPower(optimizer.beta1, step), IntegerPower(optimizer.beta2, step));
  }
  return scalars;
}

SFCTR_HD inline void InitializeState(const Optimizer& optimizer, int64_t dim, float* state) {
  const int64_t size = StateSize(optimizer, dim);
  for (int64_t i = 0; i < size; ++i) state[i] = 0.0f;
  int64_t accumulators = 0;
  if (optimizer.kind == OptimizerKind::kAdagrad || optimizer.kind == OptimizerKind::kFtrl) accumulators = dim;
  if (optimizer.kind == OptimizerKind::kRowWiseAdagrad) accumulators = 1;
  for (int64_t i = 0; i < accumulators; ++i) state[i] = optimizer.initial_accumulator;
}

// Applies to a row the zero-gradient Adam steps last_step + 1 .. step, as dense Adam would have, with the learning
// rate of now. Steps that would move a weight by less than 1e-8 of what the first did are taken in one go.
SFCTR_HD inline void AdamCatchUp(const Optimizer& optimizer, float learning_rate, uint32_t step, int64_t dim,
                                 float* weights, float* state) {
  float* m = state;
  float* v = state + dim;
  uint32_t last_step;
  memcpy(&last_step, state + 2 * dim, sizeof(last_step));
  if (last_step == 0 || last_step >= step) return;
  double beta1_power = IntegerPower(optimizer.beta1, last_step);
  double beta2_power = IntegerPower(optimizer.beta2, last_step);
  // What a step moves fades as m / sqrt(v) does and, once v is small beside epsilon, as m does.
  const double ratio_fade = optimizer.beta1 / sqrt(static_cast<double>(optimizer.beta2));
  double faded_ratio = 1.0;
  double faded_m = 1.0;
  uint32_t t = last_step;
  while (t < step && faded_ratio > 1e-8 && faded_m > 1e-30) {
    ++t;
    beta1_power *= optimizer.beta1;
    beta2_power *= optimizer.beta2;
    faded_ratio *= ratio_fade;
    faded_m *= optimizer.beta1;
    const float alpha = AdamAlpha(learning_rate, beta1_power, beta2_power);
    for (int64_t i = 0; i < dim; ++i) {
      m[i] -= m[i] * optimizer.one_minus_beta1;
      v[i] -= v[i] * optimizer.one_minus_beta2;
      weights[i] -= m[i] * alpha / (sqrtf(v[i]) + optimizer.epsilon);
    }
  }
  if (t < step) {
    const float m_decay = static_cast<float>(IntegerPower(optimizer.beta1, step - t));
    const float v_decay = static_cast<float>(IntegerPower(optimizer.beta2, step - t));
    for (int64_t i = 0; i < dim; ++i) {
      m[i] *= m_decay;
      v[i] *= v_decay;
    }
  }
  memcpy(state + 2 * dim, &step, sizeof(step));
}

// L2 and clipping, in this order, on the summed gradient of one row.
SFCTR_HD inline void RegularizeGradient(const Optimizer& optimizer, int64_t dim, const float* weights,
                                        float* gradient) {
  if (optimizer.l2 != 0.0f) {
    for (int64_t i = 0; i < dim; ++i) gradient[i] += 2.0f * optimizer.l2 * weights[i];
  }
  if (optimizer.clip_value > 0.0f) {
    const float limit = optimizer.clip_value;
    for (int64_t i = 0; i < dim; ++i) {
      gradient[i] = gradient[i] > limit ? limit : (gradient[i] < -limit ? -limit : gradient[i]);
    }
  }
  if (optimizer.clip_norm > 0.0f) {
    float sum = 0.0f;
    for (int64_t i = 0; i < dim; ++i) sum += gradient[i] * gradient[i];
    const float norm = sqrtf(sum);
    if (norm > optimizer.clip_norm) {
      const float scale = optimizer.clip_norm / norm;
      for (int64_t i = 0; i < dim; ++i) gradient[i] *= scale;
    }
  }
}

SFCTR_HD inline void FtrlUpdate(const Optimizer& optimizer, float learning_rate, int64_t dim, const float* gradient,
                                float* weights, float* state) {
  float* accumulator = state;
  float* linear = state + dim;
  const float l2 = optimizer.ftrl_l2 + optimizer.beta / (2.0f * learning_rate);
  const bool square_root = optimizer.lr_power == -0.5f;
  for (int64_t i = 0; i < dim; ++i) {
    const float g = gradient[i];
    const float shrunk = g + 2.0f * optimizer.l2_shrinkage * weights[i];
    const float old_sum = accumulator[i];
    const float new_sum = old_sum + g * g;
    const float old_power = square_root ? sqrtf(old_sum) : powf(old_sum, -optimizer.lr_power);
    const float new_power = square_root ? sqrtf(new_sum) : powf(new_sum, -optimizer.lr_power);
    linear[i] += shrunk - (new_power - old_power) / learning_rate * weights[i];
    const float quadratic = new_power / learning_rate + 2.0f * l2;
    const float z = linear[i];
    const float clipped = z > optimizer.l1 ? optimizer.l1 : (z < -optimizer.l1 ? -optimizer.l1 : z);
    weights[i] = (clipped - z) / quadratic;
    accumulator[i] = new_sum;
  }
}

// One update of one row. `gradient[dim]` is the sum over the row's uses in the step and is overwritten.
SFCTR_HD inline void UpdateRow(const Optimizer& optimizer, const UpdateScalars& scalars, int64_t dim,
                               float* __restrict__ gradient, float* __restrict__ weights, float* __restrict__ state) {
  const float lr = scalars.learning_rate;
  if (optimizer.kind == OptimizerKind::kAdam && optimizer.catch_up) {
    AdamCatchUp(optimizer, lr, scalars.step - 1, dim, weights, state);
    memcpy(state + 2 * dim, &scalars.step, sizeof(scalars.step));
  }
  RegularizeGradient(optimizer, dim, weights, gradient);
  switch (optimizer.kind) {
    case OptimizerKind::kSgd:
      for (int64_t i = 0; i < dim; ++i) weights[i] -= lr * gradient[i];
      break;
    case OptimizerKind::kMomentum:
      for (int64_t i = 0; i < dim; ++i) {
        state[i] = state[i] * optimizer.momentum - gradient[i] * lr;
        weights[i] += optimizer.nesterov ? state[i] * optimizer.momentum - gradient[i] * lr : state[i];
      }
      break;
    case OptimizerKind::kAdagrad:
      for (int64_t i = 0; i < dim; ++i) {
        state[i] += gradient[i] * gradient[i];
        weights[i] -= lr * gradient[i] / sqrtf(state[i] + optimizer.epsilon);
      }
      break;
    case OptimizerKind::kRowWiseAdagrad: {
      float sum = 0.0f;
      for (int64_t i = 0; i < dim; ++i) sum += gradient[i] * gradient[i];
      state[0] += sum / static_cast<float>(dim);
      const float root = sqrtf(state[0] + optimizer.epsilon);
      for (int64_t i = 0; i < dim; ++i) weights[i] -= lr * gradient[i] / root;
      break;
    }
    case OptimizerKind::kAdam: {
      float* m = state;
      float* v = state + dim;
      for (int64_t i = 0; i < dim; ++i) {
        m[i] += (gradient[i] - m[i]) * optimizer.one_minus_beta1;
        v[i] += (gradient[i] * gradient[i] - v[i]) * optimizer.one_minus_beta2;
        weights[i] -= m[i] * scalars.adam_alpha / (sqrtf(v[i]) + optimizer.epsilon);
      }
      break;
    }
    case OptimizerKind::kFtrl:
      FtrlUpdate(optimizer, lr, dim, gradient, weights, state);
      break;
  }
}

}  // namespace sfctr

#endif  // TF_SFCTR_OPS_CORE_OPTIMIZER_H_
