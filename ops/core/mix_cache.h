// SPDX-License-Identifier: Apache-2.0
// MixCache (ScaleFreeCTR, arXiv 2104.08542): rows of tables in device memory, optimizer state included, in front of the
// tables' host stores. Training reads and updates rows here only.
//
// Three rules make it exact:
//   1. A row that an unfinished batch uses is not given up (the directory's pins; BatchRows holds one).
//   2. The write-back of a row ends before its next read from the host (plans are carried out one after the other).
//   3. A batch is handed out only when its rows have arrived (Acquire() waits for them).
//
// The Host-Manager is a thread that prepares announced batches ahead of the step that trains them: it plans, writes
// back and fetches while another batch trains. A batch that nobody announced, or that is not prepared yet, is planned
// by the caller of Acquire(). Where the slots do not suffice for preparing ahead, it waits until they do; the results
// are the same.
//
// Locks: plan_mutex_ for the directory and for all transfers, and so for the host stores of the tables; then the
// state's mutex, held for moments only, for pins and the phases of batches. Updates of slots need neither: their batch
// pins them. Memory per slot: one row of the widest table, 24 bytes of directory, 1 bit.
//
// Thread-safety: as said at each function; without a word, any thread at any time.
#ifndef TF_SFCTR_OPS_CORE_MIX_CACHE_H_
#define TF_SFCTR_OPS_CORE_MIX_CACHE_H_

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ops/core/cache_directory.h"
#include "ops/core/emulated_link.h"
#include "ops/core/host_store.h"
#include "ops/core/mapped_memory.h"
#include "ops/core/parallel.h"
#include "ops/core/stage_log.h"
#include "ops/core/status.h"
#include "ops/core/virtual_batch.h"

namespace sfctr {

struct CacheOptions {
  int64_t num_rows = 0;   // slots; or else
  int64_t num_bytes = 0;  // of rows and directory
  CachePolicy policy = CachePolicy::kLfu;
  int prepare_ahead = 1;  // announced batches that the Host-Manager prepares; 0: none, there is no Host-Manager
  int num_threads = 1;    // of the Host-Manager's plans and transfers
  EmulatedLink link;
};

// Sums since the start, of one table.
struct CacheStats {
  int64_t num_batches = 0;
  int64_t num_ids = 0;      // before duplicates were removed
  int64_t num_unique = 0;   // hits are num_unique - num_fetched
  int64_t num_fetched = 0;  // rows
  int64_t num_written_back = 0;
  int64_t num_prepared = 0;  // batches that were ready when their step asked
  int64_t row_bytes = 0;     // of one row, for bytes fetched and written back
};

class MixCache {
 public:
  static Status Create(const CacheOptions& options, std::shared_ptr<MixCache>* cache);
  ~MixCache();

  // Adds a table; `number` names it from then on. Its store is touched only under Lock(). Error if there are too many,
  // or if its rows are wider than the slots, which the first plan has fixed.
  Status Attach(HostStore* store, int* number);
  // Forgets a table and its rows, which are not written back.
  void Detach(int number);

  // Tells of a batch that a step will acquire.
  void Announce(int table, const std::shared_ptr<TableBatch>& batch, int64_t number);

  // The slots of a batch if it was prepared, or is being prepared; else null.
  std::shared_ptr<const BatchRows> TakePrepared(int table, TableBatch* batch);

  // The slots of a batch. Error, before any change of a row, if the slots do not suffice.
  Status Acquire(int table, TableBatch* batch, Executor* executor, std::shared_ptr<const BatchRows>* rows);

  // Row of a slot. REQUIRES: a pin of it, or Lock().
  float* row(uint32_t slot) const { return rows_ + slot * stride_floats_; }
  // REQUIRES: a pin of it, and one thread per slot.
  void MarkChanged(uint32_t slot) {
    changed_[slot >> 6].fetch_or(uint64_t{1} << (slot & 63), std::memory_order_relaxed);
  }

  // Keeps plans and transfers away.
  std::unique_lock<std::mutex> Lock() const { return std::unique_lock<std::mutex>(plan_mutex_); }
  // The rest REQUIRES Lock().
  // slots[i] = slot of ids[i], or kNoSlot.
  void Find(int table, const int64_t* ids, int64_t num_ids, uint32_t* slots) const;
  // Writes all changed rows of a table to its host store; they stay cached. REQUIRES: no update of the table meanwhile.
  Status WriteBack(int table, Executor* executor);

  CacheStats stats(int table) const;
  int64_t num_slots() const;
  int64_t num_used() const;
  int64_t directory_bytes() const;
  const EmulatedLink& link() const { return options_.link; }
  StageLog* stages() { return &stages_; }

 private:
  friend struct Announcement;

  // An announced batch on its way through the Host-Manager. Guarded by the state's mutex, but for what is const.
  struct Preparation {
    enum class Phase { kAnnounced, kPreparing, kPrepared, kOver };  // over: taken by its step, or given up
    Preparation(int its_table, int64_t its_number, std::shared_ptr<const UniqueIds> its_ids)
        : table(its_table), number(its_number), unique(std::move(its_ids)) {}
    const int table;
    const int64_t number;
    const std::shared_ptr<const UniqueIds> unique;
    Phase phase = Phase::kAnnounced;
    std::shared_ptr<const BatchRows> rows;  // in kPrepared only
  };
  // What batches and pins share with the cache, and may outlive it.
  struct State {
    // Wakes who waits for a change.
    void Change() {
      ++version;
      changed.notify_all();
    }
    std::mutex mutex;
    std::condition_variable changed;
    int64_t version = 0;
    std::map<uint32_t, const BatchRows*> unfinished;  // plans that somebody holds, by step
    bool stop = false;
  };
  // Makes a step unfinished as long as it lives.
  struct Pin {
    Pin(std::shared_ptr<State> its_state, uint32_t its_step) : state(std::move(its_state)), step(its_step) {}
    ~Pin() {
      std::lock_guard<std::mutex> lock(state->mutex);
      state->unfinished.erase(step);
      if (planned) state->Change();
    }
    const std::shared_ptr<State> state;
    const uint32_t step;
    bool planned = false;
  };
  struct AttachedTable {
    HostStore* store = nullptr;  // null once detached
    CacheStats stats;
  };

  explicit MixCache(const CacheOptions& options);

  // The rest REQUIRES plan_mutex_.
  Status EnsureMemory();
  Status Plan(int table, const UniqueIds& unique, int64_t number, Executor* executor,
              std::shared_ptr<const BatchRows>* rows);
  // Finds or creates the host rows of the changed ones among `slots` and copies these there.
  Status WriteBackSlots(const std::vector<uint32_t>& slots, int64_t* num_written, Executor* executor);
  void Fetch(int table, const int64_t* ids, const CacheSelection& selection, Executor* executor);
  // Takes back what was prepared for batches that no step has acquired yet; false if there was nothing.
  bool DropPrepared();

  void ManageHost();
  // The batch to be prepared next, or null. REQUIRES the state's lock.
  std::shared_ptr<Preparation> NextToPrepare();

  bool is_changed(uint32_t slot) const {
    return (changed_[slot >> 6].load(std::memory_order_relaxed) >> (slot & 63)) & 1;
  }

  const CacheOptions options_;
  mutable std::mutex plan_mutex_;
  std::vector<AttachedTable> tables_;
  std::unique_ptr<CacheDirectory> directory_;
  MappedMemory memory_;
  float* rows_ = nullptr;  // [num_slots, stride_floats]
  int64_t stride_floats_ = 0;
  std::unique_ptr<std::atomic<uint64_t>[]> changed_;  // one bit a slot: the host has an older row, or none
  uint32_t step_ = 0;

  const std::shared_ptr<State> state_;
  std::deque<std::shared_ptr<Preparation>> announced_;  // guarded by the state's mutex
  std::vector<std::shared_ptr<Preparation>> to_note_;   // the same: look-ahead has not seen them yet
  std::vector<std::shared_ptr<Preparation>> prepared_;  // the same: not acquired yet
  std::array<std::atomic<int64_t>, kMaxCacheTables> num_prepared_{};
  StageLog stages_;
  std::thread host_manager_;
};

struct Announcement {
  Announcement(std::shared_ptr<MixCache::State> its_state, std::shared_ptr<MixCache::Preparation> its_preparation)
      : state(std::move(its_state)), preparation(std::move(its_preparation)) {}
  ~Announcement();
  const std::shared_ptr<MixCache::State> state;
  const std::shared_ptr<MixCache::Preparation> preparation;
};

}  // namespace sfctr

#endif  // TF_SFCTR_OPS_CORE_MIX_CACHE_H_
