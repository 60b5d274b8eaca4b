// SPDX-License-Identifier: Apache-2.0
#include "ops/core/table.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "ops/core/unique.h"

namespace sfctr {
namespace {

constexpr int64_t kMinRowsPerPart = 512;
constexpr int64_t kMinPointersPerPart = 4096;
constexpr int64_t kAhead = 16;  // rows prefetched ahead; chosen by tests/core/table_benchmark.cc

bool AllFinite(const float* values, int64_t n) {
  // An exponent of all ones is an infinity or a NaN. Without a branch per value, so that it is vectorised.
  uint32_t worst = 0;
  for (int64_t i = 0; i < n; ++i) {
    uint32_t bits;
    memcpy(&bits, values + i, sizeof(bits));
    worst = std::max(worst, bits & 0x7F800000u);
  }
  return worst != 0x7F800000u;
}

}  // namespace

Table::Table(std::string name, int64_t input_dim, RowLayout layout, Status* status)
    : name_(std::move(name)), store_(input_dim, std::move(layout), status) {
  learning_rates_.assign(store_.layout().groups().size(), 0.0f);
}

Status Table::Create(std::string name, int64_t input_dim, RowLayout layout, std::shared_ptr<Table>* table) {
  if (input_dim < 0 || input_dim > static_cast<int64_t>(kNoRow)) {
    return InvalidArgument("input_dim must be in [1, " + std::to_string(kNoRow) + "], or 0 for any id; got " +
                           std::to_string(input_dim) + ". Leave it out to accept any 64-bit id.");
  }
  Status status;
  std::shared_ptr<Table> created(new Table(std::move(name), input_dim, std::move(layout), &status));
  if (status.ok()) *table = std::move(created);
  return status;
}

Status Table::Lookup(const Use& use, const std::vector<Columns<float>>& outputs, bool training, uint32_t* rows,
                     Executor* executor) {
  SFCTR_RETURN_IF_ERROR(CheckPositions(use.positions));
  SFCTR_RETURN_IF_ERROR(store_.CheckIds(use.unique_ids, use.num_unique));
  std::vector<float> learning_rates;
  {
    std::lock_guard<std::mutex> lock(step_mutex_);
    SFCTR_RETURN_IF_ERROR(Flush(executor));
    if (training) ++open_lookups_;
    if (layout().catches_up()) learning_rates = learning_rates_;
  }
  std::shared_lock<std::shared_mutex> lock(store_mutex_);
  store_.Find(use.unique_ids, use.num_unique, rows, executor);

  // Rows are read where they are, except what no row holds: initial values, and rows that owe skipped steps.
  const int64_t embedding_floats = layout().embedding_floats();
  const int64_t row_floats = layout().row_floats();
  const bool catches_up = layout().catches_up();
  Buffer<const float*> pointers(use.num_unique);
  int64_t num_made = 0;
  for (int64_t u = 0; u < use.num_unique; ++u) num_made += catches_up || rows[u] == kNoRow;
  const int64_t made_floats = catches_up ? row_floats : embedding_floats;
  Buffer<float> made(num_made * made_floats);
  if (num_made == 0) {
    ParallelFor(executor, use.num_unique, kMinPointersPerPart, [&](int64_t begin, int64_t end) {
      for (int64_t u = begin; u < end; ++u) pointers[u] = store_.row(rows[u]);
    });
  } else {
    for (int64_t u = 0, next = 0; u < use.num_unique; ++u) {
      pointers[u] = catches_up || rows[u] == kNoRow ? made.data() + made_floats * next++ : store_.row(rows[u]);
    }
    ParallelFor(executor, use.num_unique, kMinRowsPerPart, [&](int64_t begin, int64_t end) {
      for (int64_t u = begin; u < end; ++u) {
        auto* row = const_cast<float*>(pointers[u]);  // into `made`
        if (rows[u] == kNoRow) {
          layout().InitializeEmbedding(use.unique_ids[u], row);
        } else if (catches_up) {
          memcpy(row, store_.row(rows[u]), row_floats * sizeof(float));
          layout().CatchUp(learning_rates, static_cast<uint32_t>(step_), row);
        }
      }
    });
  }
  GatherAndCombine(use.positions, pointers, outputs, executor);
  return Status();
}

Status Table::CheckLearningRates(const std::vector<float>& learning_rates) const {
  for (size_t g = 0; g < learning_rates.size(); ++g) {
    const bool ftrl = layout().groups()[g].optimizer.kind == OptimizerKind::kFtrl;
    const float lr = learning_rates[g];
    if (std::isfinite(lr) && (ftrl ? lr > 0.0f : lr >= 0.0f)) continue;
    return InvalidArgument(std::string("learning_rate must be finite and ") +
                           (ftrl ? "above 0 (FTRL)" : "not below 0") + "; got " + std::to_string(lr) +
                           ". Check the schedule or the callback that sets it.");
  }
  return Status();
}

Status Table::Sum(const Gradient& gradient, Executor* executor, RowGradients* sums) const {
  const Use& use = gradient.use;
  const int64_t width = layout().embedding_floats();
  sums->unique_ids.assign(use.unique_ids, use.unique_ids + use.num_unique);
  sums->rows.assign(gradient.rows, gradient.rows + use.num_unique);
  sums->sums = Buffer<float>(use.num_unique * width);
  // Checking sums is checking all that went into them: neither an infinity nor a NaN disappears in a sum.
  std::atomic<bool> finite{true};
  const UsesByRow uses(use.positions, use.num_unique, executor);
  uses.ForRanges(executor, [&](int64_t begin, int64_t end) {
    bool all_finite = true;
    for (int64_t u = begin; u < end; ++u) {
      float* const sum = sums->sums.data() + u * width;
      uses.Sum(u, gradient.columns, sum);
      all_finite &= AllFinite(sum, width);
    }
    if (!all_finite) finite = false;
  });
  if (finite) return Status();
  int64_t i = 0;
  while (std::isfinite(sums->sums[i])) ++i;
  return InvalidArgument("gradients must be finite; got " + std::to_string(sums->sums[i]) + " for id " +
                         std::to_string(use.unique_ids[i / width]) +
                         ". No row was changed. Lower the learning rate, clip gradients, or check the inputs.");
}

void Table::CancelLookup() {
  std::lock_guard<std::mutex> lock(step_mutex_);
  open_lookups_ = std::max<int64_t>(0, open_lookups_ - 1);
}

void Table::Abandon() {
  std::lock_guard<std::mutex> lock(step_mutex_);
  pending_.clear();
  open_lookups_ = 0;
}

Status Table::Push(std::vector<RowGradients> gradients, const std::vector<float>& learning_rates, Executor* executor) {
  std::lock_guard<std::mutex> lock(step_mutex_);
  learning_rates_ = learning_rates;
  open_lookups_ = std::max<int64_t>(0, open_lookups_ - static_cast<int64_t>(gradients.size()));
  for (RowGradients& gradient : gradients) pending_.push_back(std::move(gradient));
  return open_lookups_ == 0 ? Flush(executor) : Status();
}

Status Table::Flush(Executor* executor) {
  if (pending_.empty()) return Status();
  std::vector<RowGradients> gradients = std::move(pending_);
  pending_.clear();
  open_lookups_ = 0;
  RowGradients merged = gradients.size() == 1 ? std::move(gradients[0]) : Merge(gradients, executor);
  std::unique_lock<std::shared_mutex> lock(store_mutex_);
  return Apply(std::move(merged), executor);
}

Status Table::Apply(RowGradients gradients, Executor* executor) {
  const auto num_rows = static_cast<int64_t>(gradients.rows.size());
  uint32_t* const rows = gradients.rows.data();
  if (std::find(rows, rows + num_rows, kNoRow) != rows + num_rows) {
    // Another update may have created them since the lookup.
    store_.Find(gradients.unique_ids.data(), num_rows, rows, executor);
    SFCTR_RETURN_IF_ERROR(store_.Create(gradients.unique_ids.data(), num_rows, rows, executor));
  }
  ++step_;
  const int64_t width = layout().embedding_floats();
  const std::vector<ColumnGroup>& groups = layout().groups();
  std::vector<UpdateScalars> scalars;
  for (size_t g = 0; g < groups.size(); ++g) {
    scalars.push_back(MakeUpdateScalars(groups[g].optimizer, learning_rates_[g], static_cast<uint32_t>(step_)));
  }
  ParallelFor(executor, num_rows, kMinRowsPerPart, [&](int64_t begin, int64_t end) {
    for (int64_t u = begin; u < std::min(begin + kAhead, end); ++u) store_.PrefetchForWrite(rows[u]);
    for (int64_t u = begin; u < end; ++u) {
      if (u + kAhead < end) store_.PrefetchForWrite(rows[u + kAhead]);
      float* const sum = gradients.sums.data() + u * width;
      float* const row = store_.row(rows[u]);
      for (size_t g = 0; g < groups.size(); ++g) {
        const ColumnGroup& group = groups[g];
        UpdateRow(group.optimizer, scalars[g], group.dim, sum + group.embedding_offset, row + group.embedding_offset,
                  row + group.state_offset);
      }
    }
  });
  return Status();
}

RowGradients Table::Merge(const std::vector<RowGradients>& gradients, Executor* executor) const {
  // The sums of all uses are one use of the table, with duplicates.
  std::vector<int64_t> ids;
  std::vector<float> sums;
  for (const RowGradients& gradient : gradients) {
    ids.insert(ids.end(), gradient.unique_ids.begin(), gradient.unique_ids.end());
    sums.insert(sums.end(), gradient.sums.data(), gradient.sums.data() + gradient.sums.size());
  }
  const auto num_ids = static_cast<int64_t>(ids.size());
  const int64_t width = layout().embedding_floats();
  RowGradients merged;
  merged.unique_ids.resize(num_ids);
  std::vector<int32_t> inverse(num_ids);
  const int64_t num_unique =
      Unique(ids.data(), num_ids, std::nullopt, merged.unique_ids.data(), inverse.data(), executor);
  merged.unique_ids.resize(num_unique);
  merged.rows.assign(num_unique, kNoRow);
  merged.sums = Buffer<float>(num_unique * width);
  Positions positions;
  positions.inverse = inverse.data();
  positions.num_ids = num_ids;
  const UsesByRow uses(positions, num_unique, executor);
  uses.ForRanges(executor, [&](int64_t begin, int64_t end) {
    for (int64_t u = begin; u < end; ++u) uses.Sum(u, {{sums.data(), width, width}}, merged.sums.data() + u * width);
  });
  return merged;
}

TableStats Table::Stats(bool flush, Executor* executor) {
  std::lock_guard<std::mutex> step_lock(step_mutex_);
  if (flush) Flush(executor);
  std::shared_lock<std::shared_mutex> lock(store_mutex_);
  return {store_.size(), store_.row_bytes(), store_.index_bytes(), step_};
}

Status Table::Export(int64_t cursor, int64_t max_rows, int64_t width, std::vector<int64_t>* ids,
                     const std::function<float*(int64_t num_rows)>& allocate_values, int64_t* next_cursor,
                     Executor* executor) {
  const int64_t row_floats = layout().row_floats();
  if (width != layout().embedding_floats() && width != row_floats) {
    return InvalidArgument("width must be " + std::to_string(layout().embedding_floats()) + " (embedding) or " +
                           std::to_string(row_floats) + " (whole row); got " + std::to_string(width) + ".");
  }
  std::lock_guard<std::mutex> step_lock(step_mutex_);
  SFCTR_RETURN_IF_ERROR(Flush(executor));
  std::shared_lock<std::shared_mutex> lock(store_mutex_);
  std::vector<uint32_t> rows;
  int64_t row = store_.NextRow(std::max<int64_t>(0, cursor));
  for (; row >= 0 && static_cast<int64_t>(rows.size()) < max_rows; row = store_.NextRow(row + 1)) {
    rows.push_back(static_cast<uint32_t>(row));
  }
  *next_cursor = row;
  ids->resize(rows.size());
  const auto num_rows = static_cast<int64_t>(rows.size());
  float* values = allocate_values(num_rows);
  if (values == nullptr && num_rows > 0) {
    return ResourceExhausted("no memory for " + std::to_string(num_rows * width * 4) + " bytes");
  }
  // Whole rows too: the learning rate of the steps they owe is not saved with them.
  const bool catch_up = layout().catches_up();
  ParallelFor(executor, num_rows, kMinRowsPerPart, [&](int64_t begin, int64_t end) {
    std::vector<float> buffer(row_floats);
    for (int64_t i = begin; i < end; ++i) {
      (*ids)[i] = store_.id_of(rows[i]);
      const float* source = store_.row(rows[i]);
      if (catch_up) {
        memcpy(buffer.data(), source, row_floats * sizeof(float));
        layout().CatchUp(learning_rates_, static_cast<uint32_t>(step_), buffer.data());
        source = buffer.data();
      }
      memcpy(values + i * width, source, width * sizeof(float));
    }
  });
  return Status();
}

Status Table::Import(const int64_t* ids, int64_t num_ids, const float* values, int64_t width, Executor* executor) {
  if (width != layout().embedding_floats() && width != layout().row_floats()) {
    return InvalidArgument("rows must be " + std::to_string(layout().embedding_floats()) +
                           " floats wide (embedding) or " + std::to_string(layout().row_floats()) +
                           " (embedding and optimizer state); got " + std::to_string(width) +
                           ". Load them into a table of the same output_dim and optimizer.");
  }
  SFCTR_RETURN_IF_ERROR(store_.CheckIds(ids, num_ids));
  std::vector<int64_t> unique_ids(num_ids);
  std::vector<int32_t> inverse(num_ids);
  const int64_t num_unique = Unique(ids, num_ids, std::nullopt, unique_ids.data(), inverse.data(), executor);
  if (num_unique != num_ids) {
    int64_t i = 0;
    while (inverse[i] == i) ++i;
    return InvalidArgument("ids must be distinct; got " + std::to_string(ids[i]) + " twice. Pass every id once.");
  }
  std::lock_guard<std::mutex> step_lock(step_mutex_);
  SFCTR_RETURN_IF_ERROR(Flush(executor));
  std::unique_lock<std::shared_mutex> lock(store_mutex_);
  std::vector<uint32_t> rows(num_ids, kNoRow);
  store_.Find(ids, num_ids, rows.data(), executor);
  SFCTR_RETURN_IF_ERROR(store_.Create(ids, num_ids, rows.data(), executor));
  ParallelFor(executor, num_ids, kMinRowsPerPart, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float* row = store_.row(rows[i]);
      // Or the steps that a row owes would move the embedding that it gets here.
      if (layout().catches_up()) layout().CatchUp(learning_rates_, static_cast<uint32_t>(step_), row);
      memcpy(row, values + i * width, width * sizeof(float));
    }
  });
  return Status();
}

Status Table::set_step(int64_t step, Executor* executor) {
  if (step < 0 || step > int64_t{0xFFFFFFFF}) {
    return InvalidArgument("step must be in [0, 2^32); got " + std::to_string(step) + ".");
  }
  std::lock_guard<std::mutex> step_lock(step_mutex_);
  SFCTR_RETURN_IF_ERROR(Flush(executor));
  std::unique_lock<std::shared_mutex> lock(store_mutex_);
  step_ = step;
  return Status();
}

}  // namespace sfctr
