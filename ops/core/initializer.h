// SPDX-License-Identifier: Apache-2.0
// Initial values of rows: a pure function of (table seed, id, column), so that a row's first value depends neither on
// the order of arrival, nor on the number of workers, nor on whether the row was evicted and came back.
#ifndef TF_SFCTR_OPS_CORE_INITIALIZER_H_
#define TF_SFCTR_OPS_CORE_INITIALIZER_H_

#include <cmath>
#include <cstdint>
#include <cstring>

#include "ops/core/hash.h"
#include "ops/core/platform.h"

namespace sfctr {

enum class InitializerKind : int32_t {
  kConstant,         // a
  kUniform,          // [a, b)
  kNormal,           // mean a, standard deviation b
  kTruncatedNormal,  // the same, values beyond 2 standard deviations excluded
};

struct Initializer {
  InitializerKind kind = InitializerKind::kConstant;
  float a = 0.0f;
  float b = 0.0f;
};

// Natural logarithm of a normal positive float, relative error below 2e-7, by integer and IEEE operations alone.
SFCTR_HD inline float PortableLog(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof(bits));
  // Mantissa into [sqrt(1/2), sqrt(2)), exponent beside it.
  const int32_t exponent = static_cast<int32_t>((bits - 0x3F3504F3u) >> 23) - ((bits < 0x3F3504F3u) ? 512 : 0);
  bits -= static_cast<uint32_t>(exponent) << 23;
  float mantissa;
  memcpy(&mantissa, &bits, sizeof(mantissa));
  const float s = (mantissa - 1.0f) / (mantissa + 1.0f);
  const float z = s * s;
  // 2 atanh(s) as a series in s.
  const float series = 2.0f * s * (1.0f + z * (1.0f / 3 + z * (1.0f / 5 + z * (1.0f / 7 + z * (1.0f / 9)))));
  return static_cast<float>(exponent) * 0.69314718056f + series;
}

// Quantile of the standard normal distribution at p in (0, 1), p and 1 - p at least 2^-25, absolute error below 2e-6:
// PPND7 of M. J. Wichura, Algorithm AS 241 (1988). Its terms all have one sign, so single precision suffices.
SFCTR_HD inline float NormalQuantile(float p) {
  const float q = p - 0.5f;
  if (q >= -0.425f && q <= 0.425f) {
    const float r = 0.180625f - q * q;
    const float numerator =
        ((5.9109374720e+01f * r + 1.5929113202e+02f) * r + 5.0434271938e+01f) * r + 3.3871327179e+00f;
    const float denominator = ((6.7187563600e+01f * r + 7.8757757664e+01f) * r + 1.7895169469e+01f) * r + 1.0f;
    return q * numerator / denominator;
  }
  const float r = sqrtf(-PortableLog(q < 0.0f ? p : 1.0f - p)) - 1.6f;
  const float numerator = ((1.7023821103e-01f * r + 1.3067284816e+00f) * r + 2.7568153900e+00f) * r + 1.4234372777e+00f;
  const float denominator = (1.2021132975e-01f * r + 7.3700164250e-01f) * r + 1.0f;
  const float x = numerator / denominator;
  return q < 0.0f ? -x : x;
}

// Seed of one row; every column's value is drawn from it.
SFCTR_HD inline uint64_t RowSeed(uint64_t table_seed, int64_t id) {
  return Mix64(Mix64(table_seed + 0x632BE59BD9B4E019ull) + static_cast<uint64_t>(id));
}

SFCTR_HD inline float InitialValue(const Initializer& initializer, uint64_t row_seed, int32_t column) {
  if (initializer.kind == InitializerKind::kConstant) return initializer.a;
  const uint64_t bits = Mix64(row_seed + 0x9E3779B97F4A7C15ull * static_cast<uint64_t>(column + 1));
  const float unit = static_cast<float>(bits >> 40);  // integer in [0, 2^24), exact
  constexpr float kScale = 1.0f / 16777216.0f;
  if (initializer.kind == InitializerKind::kUniform) {
    return initializer.a + (initializer.b - initializer.a) * (unit * kScale);
  }
  // One value less than 2^24 steps, in the middle of each step: never 0 and never 1.
  float p = (unit + 0.5f) * kScale;
  if (p >= 1.0f) p = 1.0f - kScale;
  if (initializer.kind == InitializerKind::kTruncatedNormal) {
    constexpr float kBelow = 0.022750132f;  // P(Z < -2)
    p = kBelow + (1.0f - 2.0f * kBelow) * p;
  }
  return initializer.a + initializer.b * NormalQuantile(p);
}

}  // namespace sfctr

#endif  // TF_SFCTR_OPS_CORE_INITIALIZER_H_
