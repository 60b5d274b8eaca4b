// SPDX-License-Identifier: Apache-2.0
#include "ops/core/virtual_batch.h"

#include "ops/core/unique.h"

namespace sfctr {

std::shared_ptr<const UniqueIds> Virtualize(const int64_t* ids, int64_t num_ids, std::optional<int64_t> padding_id,
                                            int32_t* inverse, Executor* executor) {
  auto unique = std::make_shared<UniqueIds>();
  unique->begin = Clock::now();
  unique->num_ids = num_ids;
  unique->ids = Buffer<int64_t>(num_ids);
  unique->num_unique = Unique(ids, num_ids, padding_id, unique->ids.data(), inverse, executor);
  unique->end = Clock::now();
  return unique;
}

}  // namespace sfctr
