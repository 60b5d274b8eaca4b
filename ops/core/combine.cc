// SPDX-License-Identifier: Apache-2.0
#include "ops/core/combine.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "ops/core/platform.h"
#include "ops/core/unique.h"

namespace sfctr {
namespace {

constexpr int64_t kMinOutputsPerPart = 512;
constexpr int64_t kMinUsesPerRange = 1024;
constexpr int64_t kMinIdsPerSortPart = 16384;
constexpr int kMaxSortParts = 8;  // each has a counter per unique id
constexpr int64_t kAhead = 16;    // rows prefetched ahead; chosen by tests/core/table_benchmark.cc

// What every member of a bag is multiplied by, beside its weight.
float BagScale(const Positions& positions, int64_t bag) {
  if (positions.combiner == Combiner::kSum) return 1.0f;
  float divisor = 0.0f;
  for (int64_t i = positions.splits[bag]; i < positions.splits[bag + 1]; ++i) {
    if (positions.inverse[i] == kPadding) continue;
    const float weight = positions.weights == nullptr ? 1.0f : positions.weights[i];
    divisor += positions.combiner == Combiner::kMean ? weight : weight * weight;
  }
  if (positions.combiner == Combiner::kSqrtN) divisor = std::sqrt(divisor);
  const float scale = 1.0f / divisor;
  return std::isfinite(scale) ? scale : 0.0f;  // not if the divisor is 0, or denormal
}

void Gather(const Positions& positions, const Buffer<const float*>& rows, const std::vector<Columns<float>>& outputs,
            int64_t begin, int64_t end) {
  // Virtual ids are in order of first appearance: a row that has not been read yet comes right after those that have.
  const auto num_rows = rows.size();
  int64_t width = 0;
  for (const Columns<float>& output : outputs) width += output.dim;
  int64_t prefetched = 0;
  for (int64_t i = begin; i < end; ++i) {
    const int32_t u = positions.inverse[i];
    if (u + kAhead >= prefetched) {
      prefetched = std::max<int64_t>(prefetched, u);
      const int64_t until = std::min(u + kAhead + 1, num_rows);
      for (; prefetched < until; ++prefetched) {
        ForEachCacheLine(rows[prefetched], 4 * width, [](const char* line) { SFCTR_PREFETCH_READ(line); });
      }
      prefetched = u + kAhead + 1;
    }
    const float* row = u == kPadding ? nullptr : rows[u];
    for (const Columns<float>& output : outputs) {
      float* out = output.data + i * output.stride;
      // The common widths without a call.
      if (row == nullptr) {
        std::fill_n(out, output.dim, 0.0f);
      } else if (output.dim == 1) {
        *out = *row++;
      } else if (output.dim == 16) {
        memcpy(out, row, 16 * sizeof(float));
        row += 16;
      } else {
        memcpy(out, row, output.dim * sizeof(float));
        row += output.dim;
      }
    }
  }
}

void CombineBag(const Positions& positions, const Buffer<const float*>& rows,
                const std::vector<Columns<float>>& outputs, int64_t bag) {
  for (const Columns<float>& output : outputs) std::fill_n(output.data + bag * output.stride, output.dim, 0.0f);
  const float scale = BagScale(positions, bag);
  const int64_t end = positions.splits[bag + 1];
  for (int64_t i = positions.splits[bag]; i < end; ++i) {
    const int32_t u = positions.inverse[i];
    if (u == kPadding) continue;
    const float factor = positions.weights == nullptr ? scale : positions.weights[i] * scale;
    const float* row = rows[u];
    for (const Columns<float>& output : outputs) {
      float* out = output.data + bag * output.stride;
      for (int64_t c = 0; c < output.dim; ++c) out[c] += factor * row[c];
      row += output.dim;
    }
  }
}

// sum[dim] = sum of factor * output row over `num_uses` outputs, in their order.
inline __attribute__((always_inline)) void SumOutputs(const float* __restrict__ data, int64_t stride, int64_t dim,
                                                      const int32_t* outputs, const float* factors, int32_t num_uses,
                                                      float* __restrict__ sum) {
  if (factors == nullptr && num_uses > 0) {
    memcpy(sum, data + outputs[0] * stride, dim * sizeof(float));
    for (int32_t use = 1; use < num_uses; ++use) {
      const float* const g = data + outputs[use] * stride;
      for (int64_t c = 0; c < dim; ++c) sum[c] += g[c];
    }
    return;
  }
  std::fill_n(sum, dim, 0.0f);
  for (int32_t use = 0; use < num_uses; ++use) {
    const float* const g = data + outputs[use] * stride;
    for (int64_t c = 0; c < dim; ++c) sum[c] += factors[use] * g[c];
  }
}

}  // namespace

Status CheckPositions(const Positions& positions, int64_t num_unique) {
  // Without a branch per id, so that the good case is vectorised. kPadding is -1.
  bool inside = true;
  for (int64_t i = 0; i < positions.num_ids; ++i) {
    inside &= static_cast<uint32_t>(positions.inverse[i] + 1) <= static_cast<uint32_t>(num_unique);
  }
  if (!inside) {
    return InvalidArgument("virtual ids must be in [-1, " + std::to_string(num_unique) +
                           "), the ids of their batch. Pass the values of a virtualized feature unchanged.");
  }
  if (positions.combiner == Combiner::kNone) return Status();
  const int64_t* splits = positions.splits;
  const int64_t last = positions.num_bags;
  if (splits[0] != 0 || splits[last] != positions.num_ids) {
    return InvalidArgument("row_splits must go from 0 to the number of ids, " + std::to_string(positions.num_ids) +
                           "; got " + std::to_string(splits[0]) + " to " + std::to_string(splits[last]) +
                           ". Pass the row_splits of the same ragged tensor.");
  }
  for (int64_t bag = 0; bag < last; ++bag) {
    if (splits[bag] > splits[bag + 1]) {
      return InvalidArgument("row_splits must not fall; got " + std::to_string(splits[bag]) + " then " +
                             std::to_string(splits[bag + 1]) + " at bag " + std::to_string(bag) +
                             ". Pass the row_splits of a ragged tensor.");
    }
  }
  for (int64_t i = 0; positions.weights != nullptr && i < positions.num_ids; ++i) {
    if (!std::isfinite(positions.weights[i])) {
      return InvalidArgument("weights must be finite; got " + std::to_string(positions.weights[i]) + " at position " +
                             std::to_string(i) + ". Check how the weights are made.");
    }
  }
  return Status();
}

void GatherAndCombine(const Positions& positions, const Buffer<const float*>& rows,
                      const std::vector<Columns<float>>& outputs, Executor* executor) {
  ParallelFor(executor, positions.num_outputs(), kMinOutputsPerPart, [&](int64_t begin, int64_t end) {
    if (positions.combiner == Combiner::kNone) {
      Gather(positions, rows, outputs, begin, end);
    } else {
      for (int64_t bag = begin; bag < end; ++bag) CombineBag(positions, rows, outputs, bag);
    }
  });
}

UsesByRow::UsesByRow(const Positions& positions, int64_t num_unique, Executor* executor)
    : num_unique_(num_unique), offsets_(num_unique + 1) {
  // A counting sort. Ranges of outputs are counted and placed by a thread each; their order is kept.
  const bool has_bags = positions.combiner != Combiner::kNone;
  const int64_t num_outputs = positions.num_outputs();
  const int parts = std::min(kMaxSortParts, NumParts(*executor, positions.num_ids, kMinIdsPerSortPart));
  const auto for_uses = [&](int part, const auto& body) {
    const int64_t end = PartBegin(num_outputs, part + 1, parts);
    for (int64_t output = PartBegin(num_outputs, part, parts); output < end; ++output) {
      const int64_t first = has_bags ? positions.splits[output] : output;
      const int64_t last = has_bags ? positions.splits[output + 1] : output + 1;
      for (int64_t i = first; i < last; ++i) {
        if (positions.inverse[i] != kPadding) body(output, i, positions.inverse[i]);
      }
    }
  };
  Buffer<int32_t> counts(parts * num_unique);  // per part and id: how many, then where the next one goes
  executor->Run(parts, [&](int part) {
    int32_t* const count = counts.data() + part * num_unique;
    std::fill_n(count, num_unique, 0);
    for_uses(part, [&](int64_t, int64_t, int32_t u) { ++count[u]; });
  });
  int32_t total = 0;
  for (int64_t u = 0; u < num_unique; ++u) {
    offsets_[u] = total;
    for (int part = 0; part < parts; ++part) total += std::exchange(counts[part * num_unique + u], total);
  }
  offsets_[num_unique] = total;
  outputs_ = Buffer<int32_t>(total);
  if (has_bags) factors_ = Buffer<float>(total);
  executor->Run(parts, [&](int part) {
    int32_t* const next = counts.data() + part * num_unique;
    int64_t bag = -1;
    float scale = 1.0f;
    for_uses(part, [&](int64_t output, int64_t i, int32_t u) {
      const int32_t use = next[u]++;
      outputs_[use] = static_cast<int32_t>(output);
      if (!has_bags) return;
      if (bag != output) scale = BagScale(positions, bag = output);
      factors_[use] = positions.weights == nullptr ? scale : positions.weights[i] * scale;
    });
  });
}

void UsesByRow::Sum(int64_t u, const std::vector<Columns<const float>>& gradients, float* sum) const {
  const int32_t begin = offsets_[u];
  const int32_t end = offsets_[u + 1];
  // The uses of the ids that follow stand behind this one's: the prefetch runs on into them.
  const int32_t ahead_end = static_cast<int32_t>(std::min<int64_t>(end + kAhead, outputs_.size()));
  const int32_t ahead_begin = std::min<int32_t>(begin + kAhead, ahead_end);
  for (const Columns<const float>& gradient : gradients) {
    const float* const data = gradient.data;
    const int64_t stride = gradient.stride;
    for (int32_t use = ahead_begin; use < ahead_end; ++use) SFCTR_PREFETCH_READ(data + outputs_[use] * stride);
    const int32_t* const outputs = outputs_.data() + begin;
    const float* const factors = factors_.size() == 0 ? nullptr : factors_.data() + begin;
    // The common widths are constants to the compiler.
    if (gradient.dim == 1) {
      SumOutputs(data, stride, 1, outputs, factors, end - begin, sum);
    } else if (gradient.dim == 16) {
      SumOutputs(data, stride, 16, outputs, factors, end - begin, sum);
    } else {
      SumOutputs(data, stride, gradient.dim, outputs, factors, end - begin, sum);
    }
    sum += gradient.dim;
  }
}

void UsesByRow::ForRanges(Executor* executor, const std::function<void(int64_t, int64_t)>& body) const {
  const int64_t num_rows = num_unique();
  if (num_rows == 0) return;
  const auto work_before = [&](int64_t u) { return u + offsets_[u]; };
  const int64_t work = work_before(num_rows);
  int parts = NumParts(*executor, work, kMinUsesPerRange);
  if (parts > 1) parts *= 4;  // the frequent ids come first: small ranges even that out
  const auto range_begin = [&](int part) {
    const int64_t target = PartBegin(work, part, parts);
    int64_t low = 0;
    for (int64_t high = num_rows; low < high;) {
      const int64_t middle = (low + high) / 2;
      if (work_before(middle) < target) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return part == parts ? num_rows : low;
  };
  executor->Run(parts, [&](int part) {
    const int64_t begin = range_begin(part);
    const int64_t end = range_begin(part + 1);
    if (begin < end) body(begin, end);
  });
}

}  // namespace sfctr
