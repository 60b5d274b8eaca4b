// SPDX-License-Identifier: Apache-2.0
// From rows to layer outputs and back: gather, combine, and the sum of gradients per unique row.
//
// A use of a table is a list of positions, each holding a virtual id. Without a combiner every position is an output
// row. With one, consecutive positions form bags and every bag is an output row, as in tf.nn.embedding_lookup_sparse:
//   sum    sum(w x)          mean   sum(w x) / sum(w)          sqrtn   sum(w x) / sqrt(sum(w^2))
// Padding is no member of its bag. An empty bag, or one whose divisor is 0 (or below 3e-39), is zeros.
//
// Every output row and every sum is computed by one thread in the order of positions: results do not depend on the
// number of threads.
#ifndef TF_SFCTR_OPS_CORE_COMBINE_H_
#define TF_SFCTR_OPS_CORE_COMBINE_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "ops/core/buffer.h"
#include "ops/core/parallel.h"
#include "ops/core/status.h"

namespace sfctr {

enum class Combiner : int32_t { kNone, kSum, kMean, kSqrtN };

struct Positions {
  const int32_t* inverse = nullptr;  // [num_ids], kPadding or a virtual id
  int64_t num_ids = 0;
  Combiner combiner = Combiner::kNone;
  const int64_t* splits = nullptr;  // [num_bags + 1], with a combiner
  int64_t num_bags = 0;
  const float* weights = nullptr;  // [num_ids] or null for ones, with a combiner

  int64_t num_outputs() const { return combiner == Combiner::kNone ? num_ids : num_bags; }
};

// Columns of a matrix: row i begins at data + i * stride.
template <typename T>
struct Columns {
  T* data = nullptr;
  int64_t stride = 0;
  int64_t dim = 0;
};

// Error unless virtual ids are below num_unique, splits rise from 0 to num_ids and weights are finite.
Status CheckPositions(const Positions& positions, int64_t num_unique);

// Writes outputs[g] for every column group g. rows[u] points to the embedding of virtual id u; group g begins there
// after the dims of the groups before it.
void GatherAndCombine(const Positions& positions, const Buffer<const float*>& rows,
                      const std::vector<Columns<float>>& outputs, Executor* executor);

// The transpose of Positions: for every virtual id the output rows that used it, and with which factor.
class UsesByRow {
 public:
  UsesByRow(const Positions& positions, int64_t num_unique, Executor* executor);

  int64_t num_unique() const { return num_unique_; }
  int32_t num_uses(int64_t u) const { return offsets_[u + 1] - offsets_[u]; }

  // sum[...] = sum of factor * gradient row over the uses of virtual id u, all groups one after the other.
  void Sum(int64_t u, const std::vector<Columns<const float>>& gradients, float* sum) const;

  // Calls body(begin, end) on ranges of virtual ids of about equal work.
  void ForRanges(Executor* executor, const std::function<void(int64_t, int64_t)>& body) const;

 private:
  int64_t num_unique_;
  Buffer<int32_t> offsets_;  // [num_unique + 1]
  Buffer<int32_t> outputs_;  // [num_ids without padding]
  Buffer<float> factors_;    // the same, or empty when all are 1
};

}  // namespace sfctr

#endif  // TF_SFCTR_OPS_CORE_COMBINE_H_
