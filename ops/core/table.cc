// SPDX-License-Identifier: Apache-2.0
#include "ops/core/table.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
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

Table::Table(std::string name, int64_t input_dim, RowLayout layout, EmulatedLink link, Status* status)
    : name_(std::move(name)), link_(link), store_(input_dim, std::move(layout), status) {
  learning_rates_.assign(store_.layout().groups().size(), 0.0f);
}

Table::~Table() {
  pending_.clear();  // and their pins
  if (cache_ != nullptr) cache_->Detach(cache_number_);
}

Status Table::Create(std::string name, int64_t input_dim, RowLayout layout, std::shared_ptr<MixCache> cache,
                     EmulatedLink link, std::shared_ptr<Table>* table) {
  if (input_dim < 0 || input_dim > static_cast<int64_t>(kNoRow)) {
    return InvalidArgument("input_dim must be in [1, " + std::to_string(kNoRow) + "], or 0 for any id; got " +
                           std::to_string(input_dim) + ". Leave it out to accept any 64-bit id.");
  }
  Status status;
  std::shared_ptr<Table> created(new Table(std::move(name), input_dim, std::move(layout), link, &status));
  if (status.ok() && cache != nullptr) {
    status = cache->Attach(&created->store_, &created->cache_number_);
    if (status.ok()) created->cache_ = std::move(cache);
  }
  if (status.ok()) *table = std::move(created);
  return status;
}

std::unique_lock<std::mutex> Table::LockCache() const {
  return cache_ == nullptr ? std::unique_lock<std::mutex>() : cache_->Lock();
}

void Table::Announce(const std::shared_ptr<TableBatch>& batch, int64_t number) {
  const UniqueIds& unique = *batch->unique;
  // A batch with a wrong id meets its error in the step.
  if (cache_ == nullptr || !store_.CheckIds(unique.ids.data(), unique.num_unique).ok()) return;
  cache_->Announce(cache_number_, batch, number);
}

Status Table::Lookup(TableBatch* batch, const Positions& positions, const std::vector<Columns<float>>& outputs,
                     bool training, Executor* executor) {
  const UniqueIds& unique = *batch->unique;
  const Clock::time_point begin = Clock::now();
  SFCTR_RETURN_IF_ERROR(CheckPositions(positions, unique.num_unique));
  SFCTR_RETURN_IF_ERROR(store_.CheckIds(unique.ids.data(), unique.num_unique));
  std::vector<float> learning_rates;
  std::shared_ptr<const BatchRows> rows;
  {
    std::lock_guard<std::mutex> lock(lookups_->mutex);
    SFCTR_RETURN_IF_ERROR(Flush(executor));
    if (layout().catches_up()) learning_rates = learning_rates_;
    if (cache_ != nullptr) rows = batch->looked_up;
  }
  if (cache_ != nullptr && rows == nullptr) {
    if (training) {
      SFCTR_RETURN_IF_ERROR(cache_->Acquire(cache_number_, batch, executor, &rows));
    } else {
      rows = cache_->TakePrepared(cache_number_, batch);
    }
  }
  if (cache_ != nullptr && rows == nullptr) {
    ReadAround(unique, positions, learning_rates, outputs, executor);
    return Status();
  }
  {
    std::shared_lock<std::shared_mutex> lock(store_mutex_);
    if (cache_ == nullptr) {
      auto found = std::make_shared<BatchRows>();
      found->rows = Buffer<uint32_t>(unique.num_unique);
      store_.Find(unique.ids.data(), unique.num_unique, found->rows.data(), executor);
      rows = std::move(found);
    }
    const Buffer<uint32_t>& numbers = rows->rows;
    const auto existing = [&](int64_t u) -> const float* {
      if (cache_ != nullptr) return cache_->row(numbers[u]);
      return numbers[u] == kNoRow ? nullptr : store_.row(numbers[u]);
    };
    Gather(unique, positions, existing, learning_rates, outputs, executor);
  }
  link_.Charge(begin, unique.num_unique * layout().embedding_floats() * 4);
  if (training) {
    std::lock_guard<std::mutex> lock(lookups_->mutex);
    ++lookups_->count;
    if (batch->open_lookups++ == 0) batch->train_begin = begin;
    batch->looked_up = std::move(rows);
  }
  return Status();
}

template <typename Existing>
void Table::Gather(const UniqueIds& unique, const Positions& positions, const Existing& existing,
                   const std::vector<float>& learning_rates, const std::vector<Columns<float>>& outputs,
                   Executor* executor) {
  // Rows are read where they are, except what no row holds: initial values, and rows that owe skipped steps.
  const int64_t num_unique = unique.num_unique;
  const int64_t row_floats = layout().row_floats();
  const bool catches_up = layout().catches_up();
  Buffer<const float*> pointers(num_unique);
  std::atomic<int64_t> num_missing{0};
  ParallelFor(executor, num_unique, kMinPointersPerPart, [&](int64_t begin, int64_t end) {
    int64_t missing = 0;
    for (int64_t u = begin; u < end; ++u) {
      pointers[u] = existing(u);
      missing += pointers[u] == nullptr;
    }
    num_missing += missing;
  });
  const int64_t num_made = catches_up ? num_unique : num_missing.load();
  const int64_t made_floats = catches_up ? row_floats : layout().embedding_floats();
  Buffer<float> made(num_made * made_floats);
  if (num_made > 0) {
    Buffer<float*> made_rows(num_unique);
    int64_t next = 0;
    for (int64_t u = 0; u < num_unique; ++u) {
      made_rows[u] = catches_up || pointers[u] == nullptr ? made.data() + made_floats * next++ : nullptr;
    }
    ParallelFor(executor, num_unique, kMinRowsPerPart, [&](int64_t begin, int64_t end) {
      for (int64_t u = begin; u < end; ++u) {
        if (made_rows[u] == nullptr) continue;
        if (pointers[u] == nullptr) {
          layout().InitializeEmbedding(unique.ids[u], made_rows[u]);
        } else {
          memcpy(made_rows[u], pointers[u], row_floats * sizeof(float));
          layout().CatchUp(learning_rates, static_cast<uint32_t>(step_), made_rows[u]);
        }
        pointers[u] = made_rows[u];
      }
    });
  }
  GatherAndCombine(positions, pointers, outputs, executor);
}

void Table::ReadAround(const UniqueIds& unique, const Positions& positions, const std::vector<float>& learning_rates,
                       const std::vector<Columns<float>>& outputs, Executor* executor) {
  const Clock::time_point begin = Clock::now();
  const int64_t num_unique = unique.num_unique;
  Buffer<uint32_t> slots(num_unique);
  Buffer<uint32_t> rows(num_unique);
  int64_t num_cached = 0;
  {
    const auto cache_lock = LockCache();
    std::shared_lock<std::shared_mutex> lock(store_mutex_);
    cache_->Find(cache_number_, unique.ids.data(), num_unique, slots.data());
    store_.Find(unique.ids.data(), num_unique, rows.data(), executor);
    for (int64_t u = 0; u < num_unique; ++u) num_cached += slots[u] != kNoSlot;
    const auto existing = [&](int64_t u) -> const float* {
      if (slots[u] != kNoSlot) return cache_->row(slots[u]);
      return rows[u] == kNoRow ? nullptr : store_.row(rows[u]);
    };
    Gather(unique, positions, existing, learning_rates, outputs, executor);
  }
  cache_->link().Charge(begin, (num_unique - num_cached) * layout().embedding_floats() * 4);
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

Status Table::Sum(const std::shared_ptr<TableBatch>& batch, const Positions& positions,
                  const std::vector<Columns<const float>>& gradients, Executor* executor, RowGradients* sums) const {
  const UniqueIds& unique = *batch->unique;
  const int64_t width = layout().embedding_floats();
  sums->batch = batch;
  sums->members.clear();
  const UsesByRow uses(positions, unique.num_unique, executor);
  // Of a batch that several features share, a feature may use a part. The rest is not touched, not even by zeros.
  int64_t num_used = 0;
  for (int64_t u = 0; u < unique.num_unique; ++u) num_used += uses.num_uses(u) > 0;
  const bool all = num_used == unique.num_unique;
  Buffer<int32_t> member_of;  // [num_unique]
  if (!all) {
    sums->members.reserve(num_used);
    member_of = Buffer<int32_t>(unique.num_unique);
    for (int64_t u = 0; u < unique.num_unique; ++u) {
      if (uses.num_uses(u) == 0) continue;
      member_of[u] = static_cast<int32_t>(sums->members.size());
      sums->members.push_back(static_cast<int32_t>(u));
    }
  }
  sums->sums = Buffer<float>(num_used * width);
  // Checking sums is checking all that went into them: neither an infinity nor a NaN disappears in a sum.
  std::atomic<bool> finite{true};
  uses.ForRanges(executor, [&](int64_t begin, int64_t end) {
    bool all_finite = true;
    for (int64_t u = begin; u < end; ++u) {
      if (!all && uses.num_uses(u) == 0) continue;
      float* const sum = sums->sums.data() + (all ? u : member_of[u]) * width;
      uses.Sum(u, gradients, sum);
      all_finite &= AllFinite(sum, width);
    }
    if (!all_finite) finite = false;
  });
  if (finite) return Status();
  int64_t i = 0;
  while (std::isfinite(sums->sums[i])) ++i;
  const int64_t u = all ? i / width : sums->members[i / width];
  return InvalidArgument("gradients must be finite; got " + std::to_string(sums->sums[i]) + " for id " +
                         std::to_string(unique.ids[u]) +
                         ". No row was changed. Lower the learning rate, clip gradients, or check the inputs.");
}

void Table::Close(TableBatch* batch, int64_t num_lookups) {
  const int64_t closed = std::min(num_lookups, batch->open_lookups);
  lookups_->count -= std::min(lookups_->count, closed);
  batch->open_lookups -= closed;
  if (batch->open_lookups == 0) batch->looked_up = nullptr;
}

void Table::CancelLookup(TableBatch* batch) {
  std::lock_guard<std::mutex> lock(lookups_->mutex);
  Close(batch, 1);
}

void Table::Abandon(const std::vector<TableBatch*>& batches) {
  std::lock_guard<std::mutex> lock(lookups_->mutex);
  pending_.clear();
  for (TableBatch* batch : batches) Close(batch, batch->open_lookups);
  lookups_->count = 0;
}

Status Table::Push(std::vector<RowGradients> gradients, const std::vector<float>& learning_rates, Executor* executor) {
  std::lock_guard<std::mutex> lock(lookups_->mutex);
  for (RowGradients& gradient : gradients) {
    gradient.rows = gradient.batch->looked_up;
    // A lookup without `training` has kept no place in the cache.
    if (cache_ != nullptr && gradient.rows == nullptr) {
      SFCTR_RETURN_IF_ERROR(cache_->Acquire(cache_number_, gradient.batch.get(), executor, &gradient.rows));
    }
  }
  learning_rates_ = learning_rates;
  for (RowGradients& gradient : gradients) {
    Close(gradient.batch.get(), 1);
    pending_.push_back(std::move(gradient));
  }
  return lookups_->count == 0 ? Flush(executor) : Status();
}

Status Table::Flush(Executor* executor) {
  if (pending_.empty()) return Status();
  std::vector<RowGradients> gradients = std::move(pending_);
  pending_.clear();
  lookups_->count = 0;
  // Their rows are pinned until the end of the update.
  std::vector<std::pair<std::shared_ptr<TableBatch>, std::shared_ptr<const BatchRows>>> pins;
  std::vector<Update> updates;
  for (RowGradients& gradient : gradients) {
    pins.emplace_back(gradient.batch, gradient.rows);
    updates.push_back(MakeUpdate(std::move(gradient)));
  }
  const Clock::time_point begin = Clock::now();
  int64_t num_sums = 0;
  for (const Update& part : updates) num_sums += part.sums.size();
  Update update = updates.size() == 1 ? std::move(updates[0]) : Merge(updates, executor);
  {
    std::unique_lock<std::shared_mutex> lock(store_mutex_);
    SFCTR_RETURN_IF_ERROR(Apply(std::move(update), executor));
  }
  link_.Charge(begin, 4 * num_sums);
  if (cache_ != nullptr) {
    const TableBatch* last = nullptr;
    for (const auto& [batch, rows] : pins) {
      if (batch.get() == last) continue;
      last = batch.get();
      cache_->stages()->Add(Stage::kTrain, batch->number, batch->train_begin, Clock::now());
    }
  }
  return Status();
}

Table::Update Table::MakeUpdate(RowGradients gradients) const {
  const UniqueIds& unique = *gradients.batch->unique;
  const uint32_t* const rows = gradients.rows == nullptr ? nullptr : gradients.rows->rows.data();
  Update update;
  update.sums = std::move(gradients.sums);
  if (gradients.members.empty()) {
    update.ids.assign(unique.ids.data(), unique.ids.data() + unique.num_unique);
    update.rows.assign(unique.num_unique, kNoRow);
    if (rows != nullptr) std::copy_n(rows, unique.num_unique, update.rows.data());
    return update;
  }
  for (const int32_t u : gradients.members) {
    update.ids.push_back(unique.ids[u]);
    update.rows.push_back(rows == nullptr ? kNoRow : rows[u]);
  }
  return update;
}

Status Table::Apply(Update update, Executor* executor) {
  const auto num_rows = static_cast<int64_t>(update.rows.size());
  uint32_t* const rows = update.rows.data();
  if (cache_ == nullptr && std::find(rows, rows + num_rows, kNoRow) != rows + num_rows) {
    // Another update may have created them since the lookup.
    store_.Find(update.ids.data(), num_rows, rows, executor);
    SFCTR_RETURN_IF_ERROR(store_.Create(update.ids.data(), num_rows, rows, executor));
  }
  ++step_;
  const int64_t width = layout().embedding_floats();
  const int64_t row_bytes = 4 * layout().row_floats();
  const std::vector<ColumnGroup>& groups = layout().groups();
  std::vector<UpdateScalars> scalars;
  for (size_t g = 0; g < groups.size(); ++g) {
    scalars.push_back(MakeUpdateScalars(groups[g].optimizer, learning_rates_[g], static_cast<uint32_t>(step_)));
  }
  MixCache* const cache = cache_.get();
  const auto prefetch = [&](int64_t u) {
    if (cache == nullptr) {
      store_.PrefetchForWrite(rows[u]);
    } else {
      ForEachCacheLine(cache->row(rows[u]), row_bytes, [](const char* line) { SFCTR_PREFETCH_WRITE(line); });
    }
  };
  ParallelFor(executor, num_rows, kMinRowsPerPart, [&](int64_t begin, int64_t end) {
    for (int64_t u = begin; u < std::min(begin + kAhead, end); ++u) prefetch(u);
    for (int64_t u = begin; u < end; ++u) {
      if (u + kAhead < end) prefetch(u + kAhead);
      float* const sum = update.sums.data() + u * width;
      float* const row = cache == nullptr ? store_.row(rows[u]) : cache->row(rows[u]);
      for (size_t g = 0; g < groups.size(); ++g) {
        const ColumnGroup& group = groups[g];
        UpdateRow(group.optimizer, scalars[g], group.dim, sum + group.embedding_offset, row + group.embedding_offset,
                  row + group.state_offset);
      }
      if (cache != nullptr) cache->MarkChanged(rows[u]);
    }
  });
  return Status();
}

Table::Update Table::Merge(const std::vector<Update>& updates, Executor* executor) const {
  // The sums of all uses are one use of the table, with duplicates.
  std::vector<int64_t> ids;
  std::vector<uint32_t> rows;
  std::vector<float> sums;
  for (const Update& update : updates) {
    ids.insert(ids.end(), update.ids.begin(), update.ids.end());
    rows.insert(rows.end(), update.rows.begin(), update.rows.end());
    sums.insert(sums.end(), update.sums.data(), update.sums.data() + update.sums.size());
  }
  const auto num_ids = static_cast<int64_t>(ids.size());
  const int64_t width = layout().embedding_floats();
  Update merged;
  merged.ids.resize(num_ids);
  std::vector<int32_t> inverse(num_ids);
  const int64_t num_unique = Unique(ids.data(), num_ids, std::nullopt, merged.ids.data(), inverse.data(), executor);
  merged.ids.resize(num_unique);
  merged.rows.resize(num_unique);
  for (int64_t i = 0; i < num_ids; ++i) merged.rows[inverse[i]] = rows[i];
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

Status Table::Stats(bool flush, TableStats* stats, Executor* executor) {
  std::lock_guard<std::mutex> step_lock(lookups_->mutex);
  if (flush) SFCTR_RETURN_IF_ERROR(Flush(executor));
  if (cache_ != nullptr && !flush) {
    std::shared_lock<std::shared_mutex> lock(store_mutex_);
    *stats = {-1, -1, -1, step_};
    return Status();
  }
  const auto cache_lock = LockCache();
  std::shared_lock<std::shared_mutex> lock(store_mutex_);
  if (cache_ != nullptr) SFCTR_RETURN_IF_ERROR(cache_->WriteBack(cache_number_, executor));
  *stats = {store_.size(), store_.row_bytes(), store_.index_bytes(), step_};
  return Status();
}

Status Table::Export(int64_t cursor, int64_t max_rows, int64_t width, std::vector<int64_t>* ids,
                     const std::function<float*(int64_t num_rows)>& allocate_values, int64_t* next_cursor,
                     Executor* executor) {
  const int64_t row_floats = layout().row_floats();
  if (width != layout().embedding_floats() && width != row_floats) {
    return InvalidArgument("width must be " + std::to_string(layout().embedding_floats()) + " (embedding) or " +
                           std::to_string(row_floats) + " (whole row); got " + std::to_string(width) + ".");
  }
  std::lock_guard<std::mutex> step_lock(lookups_->mutex);
  SFCTR_RETURN_IF_ERROR(Flush(executor));
  const auto cache_lock = LockCache();
  std::shared_lock<std::shared_mutex> lock(store_mutex_);
  if (cache_ != nullptr) SFCTR_RETURN_IF_ERROR(cache_->WriteBack(cache_number_, executor));
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
  if (num_ids > std::numeric_limits<int32_t>::max()) {
    return InvalidArgument("ids must be fewer than 2^31; got " + std::to_string(num_ids) + ". Pass them in parts.");
  }
  std::vector<int64_t> unique_ids(num_ids);
  std::vector<int32_t> inverse(num_ids);
  const int64_t num_unique = Unique(ids, num_ids, std::nullopt, unique_ids.data(), inverse.data(), executor);
  if (num_unique != num_ids) {
    int64_t i = 0;
    while (inverse[i] == i) ++i;
    return InvalidArgument("ids must be distinct; got " + std::to_string(ids[i]) + " twice. Pass every id once.");
  }
  std::lock_guard<std::mutex> step_lock(lookups_->mutex);
  SFCTR_RETURN_IF_ERROR(Flush(executor));
  const auto cache_lock = LockCache();
  std::unique_lock<std::shared_mutex> lock(store_mutex_);
  Buffer<uint32_t> slots(num_ids);
  if (cache_ != nullptr) {
    SFCTR_RETURN_IF_ERROR(cache_->WriteBack(cache_number_, executor));
    cache_->Find(cache_number_, ids, num_ids, slots.data());
  }
  std::vector<uint32_t> rows(num_ids, kNoRow);
  store_.Find(ids, num_ids, rows.data(), executor);
  SFCTR_RETURN_IF_ERROR(store_.Create(ids, num_ids, rows.data(), executor));
  ParallelFor(executor, num_ids, kMinRowsPerPart, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float* row = store_.row(rows[i]);
      // Or the steps that a row owes would move the embedding that it gets here.
      if (layout().catches_up()) layout().CatchUp(learning_rates_, static_cast<uint32_t>(step_), row);
      memcpy(row, values + i * width, width * sizeof(float));
      if (cache_ != nullptr && slots[i] != kNoSlot) {
        memcpy(cache_->row(slots[i]), row, layout().row_floats() * sizeof(float));
      }
    }
  });
  return Status();
}

Status Table::set_step(int64_t step, Executor* executor) {
  if (step < 0 || step > int64_t{0xFFFFFFFF}) {
    return InvalidArgument("step must be in [0, 2^32); got " + std::to_string(step) + ".");
  }
  std::lock_guard<std::mutex> step_lock(lookups_->mutex);
  SFCTR_RETURN_IF_ERROR(Flush(executor));
  std::unique_lock<std::shared_mutex> lock(store_mutex_);
  step_ = step;
  return Status();
}

}  // namespace sfctr
