// SPDX-License-Identifier: Apache-2.0
// Virtual Sparse Ids: the distinct ids of a batch in order of first appearance, and for every position the number of
// its id among them (its virtual id).
//
// The result is the same for any number of threads. Work and memory are linear in the number of ids. Ids are split by
// hash into partitions whose hash tables fit in a core's cache; partitions are independent of each other.
#ifndef TF_SFCTR_OPS_CORE_UNIQUE_H_
#define TF_SFCTR_OPS_CORE_UNIQUE_H_

#include <cstdint>
#include <optional>

#include "ops/core/parallel.h"

namespace sfctr {

constexpr int32_t kPadding = -1;

// Writes the distinct ids to unique_ids[num_ids] (only the first U are set) and virtual ids to inverse[num_ids];
// positions that hold the padding id get kPadding and its id is left out. Returns U.
// REQUIRES: num_ids < 2^31.
int64_t Unique(const int64_t* ids, int64_t num_ids, std::optional<int64_t> padding_id, int64_t* unique_ids,
               int32_t* inverse, Executor* executor);

}  // namespace sfctr

#endif  // TF_SFCTR_OPS_CORE_UNIQUE_H_
