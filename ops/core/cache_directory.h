// SPDX-License-Identifier: Apache-2.0
// The directory of a cache: which slot of the device holds the row of which id, and which rows to give up for others.
//
// It lives on the host and mirrors the device exactly, so what is missing is known without asking the device. It
// serves one or several tables; a row is named by (table, id). Every plan for a batch has a step number; the last step
// that used a row is its pin: a row is not given up while a batch of that step, or an earlier one, is unfinished. Only
// where that leaves too few is it asked which rows the unfinished batches really use.
//
// Policies, all of which look at whole batches: a row used in a batch counts once, however often it occurs there.
//   LRU         gives up the row whose last use is longest ago.
//   LFU         gives up the row used by the fewest batches since it came; of equals the least recent one. Counts are
//               halved each time as many rows as there are slots have been given up, so that old fame fades.
//   look-ahead  is told the ids of the coming batches. Gives up, by LFU, rows that none of them uses; if there are no
//               more of those, the row whose last known use is furthest in the future.
// Victims are taken from candidates, the lowest 1/32 of the rows that no batch used at the time of a search; one that
// was used since is passed over. For LRU their order is exact.
//
// Memory: 16 bytes of entry, 4 / 0.6 of buckets and 1 of candidates a slot.
//
// Thread-safety: const functions may run beside each other; the others exclude everything (MixCache holds the lock).
#ifndef TF_SFCTR_OPS_CORE_CACHE_DIRECTORY_H_
#define TF_SFCTR_OPS_CORE_CACHE_DIRECTORY_H_

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "ops/core/buffer.h"
#include "ops/core/status.h"

namespace sfctr {

enum class CachePolicy : int32_t { kLru, kLfu, kLookAhead };

constexpr uint32_t kNoSlot = 0xFFFFFFFFu;
constexpr int kMaxCacheTables = 256;

// What has to happen so that all rows of a batch are on the device.
struct CacheSelection {
  Buffer<uint32_t> slots;         // [num_ids]; kNoSlot for a miss until Commit()
  std::vector<int32_t> misses;    // positions of ids whose rows must be fetched
  std::vector<uint32_t> victims;  // slots whose rows must be given up first
};

class CacheDirectory {
 public:
  // REQUIRES: 1 <= num_slots < 2^31.
  CacheDirectory(int64_t num_slots, CachePolicy policy);

  int64_t num_slots() const { return num_slots_; }
  int64_t num_used() const { return num_used_; }
  int64_t memory_bytes() const;
  CachePolicy policy() const { return policy_; }

  // Finds the slots of a batch's ids, pins them to `step`, and chooses victims for what is missing: among the rows last
  // used before step `oldest_unfinished`; if they are too few, among all that `mark_in_flight`, called with a bit per
  // slot, leaves unmarked. Error with the number of slots needed if there are not enough: then only pins have changed.
  // REQUIRES: distinct ids; steps that rise from 1; oldest_unfinished <= step.
  Status Select(int table, const int64_t* ids, int64_t num_ids, uint32_t step, uint32_t oldest_unfinished,
                const std::function<void(std::vector<bool>*)>& mark_in_flight, CacheSelection* selection);

  // Replaces the victims of the last Select() by its misses, and fills in their slots.
  void Commit(int table, const int64_t* ids, uint32_t step, CacheSelection* selection);

  // slots[i] = slot of ids[i] or kNoSlot. Uses nothing and pins nothing.
  void Find(int table, const int64_t* ids, int64_t num_ids, uint32_t* slots) const;

  // Look-ahead: the batch with this number, from 1 and rising, will use these ids.
  void Announce(int table, const int64_t* ids, int64_t num_ids, uint32_t number);
  // The batch announced by this number is being planned: it, and those before it, lie no longer in the future.
  void Arrive(uint32_t number);

  // Drops all rows of a table.
  void Drop(int table);

  // Calls body(slot) for every slot that holds a row of the table.
  void ForEachSlot(int table, const std::function<void(uint32_t slot)>& body) const;

  int64_t id_of(uint32_t slot) const { return entries_[slot].id; }
  int table_of(uint32_t slot) const { return entries_[slot].table; }

 private:
  struct Entry {
    int64_t id;
    uint32_t last_use;    // step; kFree if the slot is free
    uint16_t future_use;  // low bits of the number of the last announced batch that uses it
    uint8_t num_uses;     // batches, saturating
    uint8_t table;
  };
  struct Candidate {
    uint64_t score;
    uint32_t slot;
    bool operator<(const Candidate& other) const {
      return score != other.score ? score < other.score : slot < other.slot;
    }
  };
  static constexpr uint32_t kFree = 0xFFFFFFFFu;
  static constexpr uint32_t kEmpty = 0xFFFFFFFFu;

  uint32_t Home(uint64_t hash) const {
    return static_cast<uint32_t>(((hash >> 32) * static_cast<uint64_t>(num_buckets_)) >> 32);
  }
  // The bits of a bucket beside the slot: a part of the hash, so that few entries are looked at in vain.
  uint32_t Tag(uint64_t hash) const { return static_cast<uint32_t>(hash) & ~slot_mask_; }
  uint32_t Next(uint32_t bucket) const { return ++bucket == num_buckets_ ? 0 : bucket; }
  // From `bucket` on, the first bucket whose tag fits, or an empty one.
  uint32_t Probe(uint32_t bucket, uint32_t tag) const {
    while (buckets_[bucket] != kEmpty && (buckets_[bucket] & ~slot_mask_) != tag) bucket = Next(bucket);
    return bucket;
  }
  bool Holds(uint32_t slot, int table, int64_t id) const {
    return entries_[slot].id == id && entries_[slot].table == table;
  }
  // Calls body(i, slot or kNoSlot) for every id, in order.
  template <typename Body>
  void ForEachFound(int table, const int64_t* ids, int64_t num_ids, const Body& body) const;
  // Rows with a low score go first.
  uint64_t Score(const Entry& entry) const;
  // Fills `candidates_` with the lowest-scored rows whose slots are free to go; at least `wanted` if there are.
  template <typename IsFreeToGo>
  void FindCandidates(int64_t wanted, const IsFreeToGo& is_free_to_go);
  void Insert(int table, int64_t id, uint32_t slot);
  void Erase(uint32_t slot);

  const int64_t num_slots_;
  const CachePolicy policy_;
  uint32_t slot_mask_;
  uint32_t num_buckets_;
  Buffer<Entry> entries_;        // [num_slots]
  Buffer<uint32_t> buckets_;     // [num_buckets], kEmpty or tag | slot; linear probing
  int64_t num_fresh_ = 0;        // slots used at least once
  std::vector<uint32_t> freed_;  // slots that Drop() has emptied
  int64_t num_used_ = 0;
  std::vector<Candidate> candidates_;               // sorted, the lowest last
  int64_t num_given_up_ = 0;                        // since counts were halved
  uint16_t now_ = 0;                                // low bits of the number that arrived last
  std::unordered_map<uint64_t, uint16_t> awaited_;  // ids announced while they had no slot: hash -> number
};

}  // namespace sfctr

#endif  // TF_SFCTR_OPS_CORE_CACHE_DIRECTORY_H_
