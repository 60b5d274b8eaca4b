// SPDX-License-Identifier: Apache-2.0
#include "ops/core/mix_cache.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

namespace sfctr {
namespace {

constexpr int64_t kMinRowsPerPart = 512;
constexpr int64_t kAhead = 16;  // rows prefetched ahead; chosen by tests/core/table_benchmark.cc
constexpr int64_t kDirectoryBytesPerSlot = 24;
constexpr int64_t kMaxSlots = int64_t{1} << 30;

}  // namespace

MixCache::MixCache(const CacheOptions& options) : options_(options), state_(std::make_shared<State>()) {
  if (options_.prepare_ahead > 0) host_manager_ = std::thread([this] { ManageHost(); });
}

Status MixCache::Create(const CacheOptions& options, std::shared_ptr<MixCache>* cache) {
  if ((options.num_rows > 0) == (options.num_bytes > 0) || options.num_rows > kMaxSlots) {
    return InvalidArgument("rows must be in [1, 2^30], or else bytes at least 1; got rows " +
                           std::to_string(options.num_rows) + " and bytes " + std::to_string(options.num_bytes) +
                           ". Give one of them.");
  }
  if (options.prepare_ahead < 0 || options.num_threads < 1 || options.link.bytes_per_s < 0 ||
      options.link.latency_s < 0) {
    return InvalidArgument("prepare_ahead and the emulated link must not be negative, and threads at least 1; got " +
                           std::to_string(options.prepare_ahead) + ", " + std::to_string(options.link.bytes_per_s) +
                           " bytes/s, " + std::to_string(options.link.latency_s) + " s, " +
                           std::to_string(options.num_threads) + " threads. Correct them.");
  }
  cache->reset(new MixCache(options));
  return Status();
}

MixCache::~MixCache() {
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    state_->stop = true;
    state_->changed.notify_all();
  }
  if (host_manager_.joinable()) host_manager_.join();
}

Status MixCache::Attach(HostStore* store, int* number) {
  const auto lock = Lock();
  const int64_t row_floats = store->layout().row_floats();
  if (tables_.size() >= kMaxCacheTables) {
    return InvalidArgument("a cache serves at most " + std::to_string(kMaxCacheTables) +
                           " tables. Give this one a cache of its own.");
  }
  if (rows_ != nullptr && row_floats > stride_floats_) {
    return InvalidArgument("rows of a table that joins a cache in use must be at most " +
                           std::to_string(stride_floats_) + " floats wide, as its slots are; got " +
                           std::to_string(row_floats) +
                           ". Create all tables of a cache before the first training step.");
  }
  if (rows_ == nullptr) stride_floats_ = std::max(stride_floats_, row_floats);
  *number = static_cast<int>(tables_.size());
  tables_.push_back({store, {}});
  tables_.back().stats.row_bytes = 4 * row_floats;
  return Status();
}

void MixCache::Detach(int number) {
  const auto lock = Lock();
  tables_[number].store = nullptr;
  if (directory_ != nullptr) directory_->Drop(number);
}

Announcement::~Announcement() {
  std::shared_ptr<const BatchRows> rows;  // goes after the lock, which its pin takes
  std::lock_guard<std::mutex> lock(state->mutex);
  preparation->phase = MixCache::Preparation::Phase::kOver;
  rows.swap(preparation->rows);
  state->Change();
}

void MixCache::Announce(int table, const std::shared_ptr<TableBatch>& batch, int64_t number) {
  stages_.Add(Stage::kDedup, number, batch->unique->begin, batch->unique->end);
  if (options_.prepare_ahead == 0) return;
  std::lock_guard<std::mutex> lock(state_->mutex);
  if (batch->announcement != nullptr) return;
  batch->number = number;
  auto preparation = std::make_shared<Preparation>(table, number, batch->unique);
  batch->announcement = std::make_shared<Announcement>(state_, preparation);
  if (options_.policy == CachePolicy::kLookAhead) to_note_.push_back(preparation);
  announced_.push_back(std::move(preparation));
  state_->Change();
}

std::shared_ptr<const BatchRows> MixCache::TakePrepared(int table, TableBatch* batch) {
  const Clock::time_point begin = Clock::now();
  std::shared_ptr<Announcement> announcement;  // goes after the lock
  std::shared_ptr<const BatchRows> rows;
  {
    std::unique_lock<std::mutex> lock(state_->mutex);
    if (batch->announcement == nullptr) return nullptr;
    announcement = std::move(batch->announcement);
    batch->announcement = nullptr;
    Preparation& preparation = *announcement->preparation;
    // Ends, since a preparation is finite work that waits for nothing.
    state_->changed.wait(lock, [&] { return preparation.phase != Preparation::Phase::kPreparing; });
    rows.swap(preparation.rows);
    preparation.phase = Preparation::Phase::kOver;
  }
  stages_.Add(Stage::kWait, batch->number, begin, Clock::now());
  if (rows != nullptr) ++num_prepared_[table];
  return rows;
}

Status MixCache::Acquire(int table, TableBatch* batch, Executor* executor, std::shared_ptr<const BatchRows>* rows) {
  *rows = TakePrepared(table, batch);
  if (*rows != nullptr) return Status();
  const Clock::time_point begin = Clock::now();
  const auto lock = Lock();
  Status status = Plan(table, *batch->unique, batch->number, executor, rows);
  // What was prepared for other batches can be prepared once more; this one is wanted now.
  if (!status.ok() && DropPrepared()) status = Plan(table, *batch->unique, batch->number, executor, rows);
  stages_.Add(Stage::kWait, batch->number, begin, Clock::now());
  return status;
}

bool MixCache::DropPrepared() {
  std::vector<std::shared_ptr<const BatchRows>> dropped;  // go after the lock, which their pins take
  std::lock_guard<std::mutex> lock(state_->mutex);
  for (auto it = prepared_.rbegin(); it != prepared_.rend(); ++it) {
    Preparation& preparation = **it;
    if (preparation.phase != Preparation::Phase::kPrepared) continue;
    preparation.phase = Preparation::Phase::kAnnounced;
    dropped.push_back(std::move(preparation.rows));
    preparation.rows = nullptr;
    announced_.push_front(*it);
  }
  prepared_.clear();
  return !dropped.empty();
}

Status MixCache::EnsureMemory() {
  if (rows_ != nullptr) return Status();
  int64_t num_slots = options_.num_rows;
  if (num_slots == 0) {
    num_slots = std::min(kMaxSlots, options_.num_bytes / (4 * stride_floats_ + kDirectoryBytesPerSlot));
    if (num_slots == 0) {
      return InvalidArgument("bytes must hold at least one row, " +
                             std::to_string(4 * stride_floats_ + kDirectoryBytesPerSlot) + "; got " +
                             std::to_string(options_.num_bytes) + ". Raise them.");
    }
  }
  const int64_t bytes = (4 * stride_floats_ * num_slots + 4095) / 4096 * 4096;
  MappedMemory memory = Map(bytes, 0);
  if (memory == nullptr) {
    return ResourceExhausted("a cache of " + std::to_string(num_slots) + " rows needs " + std::to_string(bytes) +
                             " bytes; the system refused (" + strerror(errno) + "). Lower its size.");
  }
  directory_ = std::make_unique<CacheDirectory>(num_slots, options_.policy);
  changed_ = std::make_unique<std::atomic<uint64_t>[]>((num_slots + 63) / 64);
  memory_ = std::move(memory);
  rows_ = reinterpret_cast<float*>(memory_.get());
  return Status();
}

Status MixCache::Plan(int table, const UniqueIds& unique, int64_t number, Executor* executor,
                      std::shared_ptr<const BatchRows>* rows) {
  AttachedTable& attached = tables_[table];
  if (attached.store == nullptr) return FailedPrecondition("the table is gone. Keep it while its batches are used.");
  SFCTR_RETURN_IF_ERROR(EnsureMemory());
  const int64_t* const ids = unique.ids.data();
  const Clock::time_point begin = Clock::now();
  const uint32_t step = ++step_;
  auto planned = std::make_shared<BatchRows>();
  auto pin = std::make_shared<Pin>(state_, step);
  planned->pin = pin;
  uint32_t oldest;
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    state_->unfinished[step] = planned.get();
    oldest = state_->unfinished.begin()->first;
  }
  if (number > 0) directory_->Arrive(static_cast<uint32_t>(number));
  const auto mark_in_flight = [&](std::vector<bool>* marks) {
    // What is destroyed waits for this lock, in its pin, before its slots go.
    std::lock_guard<std::mutex> lock(state_->mutex);
    for (const auto& [its_step, batch] : state_->unfinished) {
      for (int64_t i = 0; i < batch->rows.size(); ++i) (*marks)[batch->rows[i]] = true;
    }
  };
  CacheSelection selection;
  SFCTR_RETURN_IF_ERROR(directory_->Select(table, ids, unique.num_unique, step, oldest, mark_in_flight, &selection));
  const Clock::time_point selected = Clock::now();
  int64_t num_written = 0;
  SFCTR_RETURN_IF_ERROR(WriteBackSlots(selection.victims, &num_written, executor));
  const Clock::time_point written = Clock::now();
  directory_->Commit(table, ids, step, &selection);
  const Clock::time_point committed = Clock::now();
  Fetch(table, ids, selection, executor);
  const Clock::time_point fetched = Clock::now();

  CacheStats& stats = attached.stats;
  ++stats.num_batches;
  stats.num_ids += unique.num_ids;
  stats.num_unique += unique.num_unique;
  stats.num_fetched += static_cast<int64_t>(selection.misses.size());
  stages_.Add(Stage::kPlan, number, begin, selected);
  if (num_written > 0) stages_.Add(Stage::kWriteBack, number, selected, written);
  stages_.Add(Stage::kPlan, number, written, committed);
  stages_.Add(Stage::kFetch, number, committed, fetched);
  planned->rows = std::move(selection.slots);
  pin->planned = true;
  *rows = std::move(planned);
  return Status();
}

Status MixCache::WriteBackSlots(const std::vector<uint32_t>& slots, int64_t* num_written, Executor* executor) {
  const Clock::time_point begin = Clock::now();
  struct Rows {
    std::vector<uint32_t> slots;
    std::vector<int64_t> ids;
    Buffer<uint32_t> numbers;
  };
  std::vector<Rows> by_table(tables_.size());
  for (const uint32_t slot : slots) {
    if (!is_changed(slot)) continue;
    Rows& rows = by_table[directory_->table_of(slot)];
    rows.slots.push_back(slot);
    rows.ids.push_back(directory_->id_of(slot));
  }
  // All host rows are there before the first is written.
  for (size_t t = 0; t < by_table.size(); ++t) {
    Rows& rows = by_table[t];
    const auto count = static_cast<int64_t>(rows.ids.size());
    if (count == 0) continue;
    rows.numbers = Buffer<uint32_t>(count);
    tables_[t].store->Find(rows.ids.data(), count, rows.numbers.data(), executor);
    SFCTR_RETURN_IF_ERROR(tables_[t].store->Create(rows.ids.data(), count, rows.numbers.data(), executor));
  }
  int64_t bytes = 0;
  for (size_t t = 0; t < by_table.size(); ++t) {
    const Rows& rows = by_table[t];
    const auto count = static_cast<int64_t>(rows.ids.size());
    if (count == 0) continue;
    const HostStore& store = *tables_[t].store;
    const int64_t row_bytes = 4 * store.layout().row_floats();
    ParallelFor(executor, count, kMinRowsPerPart, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < std::min(first + kAhead, last); ++i) store.PrefetchForWrite(rows.numbers[i]);
      for (int64_t i = first; i < last; ++i) {
        if (i + kAhead < last) store.PrefetchForWrite(rows.numbers[i + kAhead]);
        memcpy(store.row(rows.numbers[i]), row(rows.slots[i]), row_bytes);
        changed_[rows.slots[i] >> 6].fetch_and(~(uint64_t{1} << (rows.slots[i] & 63)), std::memory_order_relaxed);
      }
    });
    tables_[t].stats.num_written_back += count;
    *num_written += count;
    bytes += count * row_bytes;
  }
  options_.link.Charge(begin, bytes);
  return Status();
}

void MixCache::Fetch(int table, const int64_t* ids, const CacheSelection& selection, Executor* executor) {
  const Clock::time_point begin = Clock::now();
  const HostStore& store = *tables_[table].store;
  const RowLayout& layout = store.layout();
  const auto count = static_cast<int64_t>(selection.misses.size());
  if (count == 0) return;
  Buffer<int64_t> missing(count);
  for (int64_t i = 0; i < count; ++i) missing[i] = ids[selection.misses[i]];
  Buffer<uint32_t> numbers(count);
  store.Find(missing.data(), count, numbers.data(), executor);
  const int64_t row_bytes = 4 * layout.row_floats();
  ParallelFor(executor, count, kMinRowsPerPart, [&](int64_t first, int64_t last) {
    const auto prefetch = [&](int64_t i) {
      if (numbers[i] != kNoRow) store.PrefetchForRead(numbers[i], layout.row_floats());
    };
    for (int64_t i = first; i < std::min(first + kAhead, last); ++i) prefetch(i);
    for (int64_t i = first; i < last; ++i) {
      if (i + kAhead < last) prefetch(i + kAhead);
      float* const slot_row = row(selection.slots[selection.misses[i]]);
      if (numbers[i] != kNoRow) {
        memcpy(slot_row, store.row(numbers[i]), row_bytes);
      } else {
        layout.InitializeEmbedding(missing[i], slot_row);
        layout.InitializeStates(slot_row);
      }
    }
  });
  options_.link.Charge(begin, count * row_bytes);
}

void MixCache::Find(int table, const int64_t* ids, int64_t num_ids, uint32_t* slots) const {
  if (directory_ == nullptr) {
    std::fill_n(slots, num_ids, kNoSlot);
  } else {
    directory_->Find(table, ids, num_ids, slots);
  }
}

Status MixCache::WriteBack(int table, Executor* executor) {
  if (directory_ == nullptr) return Status();
  std::vector<uint32_t> slots;
  directory_->ForEachSlot(table, [&](uint32_t slot) {
    if (is_changed(slot)) slots.push_back(slot);
  });
  int64_t num_written = 0;
  return WriteBackSlots(slots, &num_written, executor);
}

std::shared_ptr<MixCache::Preparation> MixCache::NextToPrepare() {
  using Phase = Preparation::Phase;
  prepared_.erase(
      std::remove_if(prepared_.begin(), prepared_.end(), [](const auto& p) { return p->phase != Phase::kPrepared; }),
      prepared_.end());
  while (!announced_.empty() && announced_.front()->phase != Phase::kAnnounced) announced_.pop_front();
  if (announced_.empty()) return nullptr;
  // Batches with the same number (of several tables) are trained in the same step.
  std::set<int64_t> steps_ahead{announced_.front()->number};
  for (const auto& prepared : prepared_) steps_ahead.insert(prepared->number);
  if (static_cast<int64_t>(steps_ahead.size()) > options_.prepare_ahead) return nullptr;
  return announced_.front();
}

void MixCache::ManageHost() {
  using Phase = Preparation::Phase;
  ThreadExecutor threads(options_.num_threads);
  int64_t failed_version = -1;  // nothing has changed since the slots did not suffice
  while (true) {
    std::vector<std::shared_ptr<Preparation>> to_note;
    std::shared_ptr<Preparation> next;
    int64_t version;
    {
      std::unique_lock<std::mutex> lock(state_->mutex);
      if (state_->stop) return;
      to_note.swap(to_note_);
      version = state_->version;
      if (version != failed_version) next = NextToPrepare();
      if (next != nullptr) {
        announced_.pop_front();
        next->phase = Phase::kPreparing;
      } else if (to_note.empty()) {
        state_->changed.wait(lock, [&] { return state_->stop || state_->version != version; });
        continue;
      }
    }
    const auto plan_lock = Lock();
    for (const auto& noted : to_note) {
      if (directory_ == nullptr) break;
      directory_->Announce(noted->table, noted->unique->ids.data(), noted->unique->num_unique,
                           static_cast<uint32_t>(noted->number));
    }
    if (next == nullptr) continue;
    std::shared_ptr<const BatchRows> rows;  // goes after the state's lock, before the next plan, if nobody wants it
    // An error is not lost: the step's own Acquire() meets it again, with what was prepared for others dropped.
    try {
      Plan(next->table, *next->unique, next->number, &threads, &rows);
    } catch (const std::bad_alloc&) {
      rows = nullptr;
    }
    std::lock_guard<std::mutex> lock(state_->mutex);
    if (rows == nullptr) failed_version = version;
    if (next->phase == Phase::kPreparing && rows != nullptr) {
      next->phase = Phase::kPrepared;
      next->rows.swap(rows);
      prepared_.push_back(std::move(next));
    } else if (next->phase == Phase::kPreparing) {
      next->phase = Phase::kAnnounced;
      announced_.push_front(std::move(next));
    }
    state_->changed.notify_all();
  }
}

CacheStats MixCache::stats(int table) const {
  const auto lock = Lock();
  CacheStats stats = tables_[table].stats;
  stats.num_prepared = num_prepared_[table];
  return stats;
}

int64_t MixCache::num_slots() const {
  const auto lock = Lock();
  return directory_ != nullptr ? directory_->num_slots() : options_.num_rows;
}

int64_t MixCache::num_used() const {
  const auto lock = Lock();
  return directory_ != nullptr ? directory_->num_used() : 0;
}

int64_t MixCache::directory_bytes() const {
  const auto lock = Lock();
  return directory_ != nullptr ? directory_->memory_bytes() + (directory_->num_slots() + 63) / 64 * 8 : 0;
}

}  // namespace sfctr
