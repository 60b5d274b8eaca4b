// SPDX-License-Identifier: Apache-2.0
// The hash functions of ids. All are stable: they decide where rows live and what new rows contain, so a change
// breaks checkpoints.
#ifndef TF_SFCTR_OPS_CORE_HASH_H_
#define TF_SFCTR_OPS_CORE_HASH_H_

#include <cstdint>

#include "ops/core/platform.h"

namespace sfctr {

// A bijection of 64-bit words with full avalanche: the finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
SFCTR_HD inline uint64_t Mix64(uint64_t x) {
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9ull;
  x ^= x >> 27;
  x *= 0x94D049BB133111EBull;
  x ^= x >> 31;
  return x;
}

// The 32 bits that place an id in the index and in the dedup table.
SFCTR_HD inline uint32_t IndexHash(int64_t id) {
  return static_cast<uint32_t>(Mix64(static_cast<uint64_t>(id) + 0x9E3779B97F4A7C15ull) >> 32);
}

// Maps a 32-bit hash evenly onto [0, n).
SFCTR_HD inline uint32_t ReduceRange(uint32_t hash, uint32_t n) {
  return static_cast<uint32_t>((static_cast<uint64_t>(hash) * n) >> 32);
}

}  // namespace sfctr

#endif  // TF_SFCTR_OPS_CORE_HASH_H_
