// SPDX-License-Identifier: Apache-2.0
#include "ops/core/cache_directory.h"

#include <algorithm>
#include <string>
#include <utility>

#include "ops/core/hash.h"
#include "ops/core/platform.h"

namespace sfctr {
namespace {

// Searches in flight at once, and the share of slots that a search for candidates finds: chosen by
// tests/core/cache_benchmark.cc.
constexpr int64_t kInFlight = 32;
constexpr int64_t kSlotsPerCandidate = 32;
constexpr int64_t kMinAwaited = 1 << 16;

uint64_t HashOf(int table, int64_t id) {
  return Mix64(static_cast<uint64_t>(id) + 0x9E3779B97F4A7C15ull * static_cast<uint64_t>(table + 1));
}

// Whether batch `number` comes after batch `now`, by the low bits of both.
bool IsFuture(uint16_t number, uint16_t now) { return static_cast<int16_t>(number - now) > 0; }

}  // namespace

CacheDirectory::CacheDirectory(int64_t num_slots, CachePolicy policy)
    : num_slots_(num_slots), policy_(policy), slot_mask_(1), entries_(num_slots) {
  // One more than all slots, so that no slot with its tag looks like an empty bucket.
  while (static_cast<int64_t>(slot_mask_) <= num_slots) slot_mask_ = 2 * slot_mask_ + 1;
  num_buckets_ = static_cast<uint32_t>(std::min<int64_t>(num_slots * 5 / 3 + 8, 0xFFFFFFFFll));
  buckets_ = Buffer<uint32_t>(num_buckets_);
  std::fill_n(buckets_.data(), num_buckets_, kEmpty);
}

int64_t CacheDirectory::memory_bytes() const {
  return num_slots_ * static_cast<int64_t>(sizeof(Entry)) + 4 * static_cast<int64_t>(num_buckets_) +
         static_cast<int64_t>(candidates_.capacity() * sizeof(Candidate) + freed_.capacity() * sizeof(uint32_t));
}

template <typename Body>
void CacheDirectory::ForEachFound(int table, const int64_t* ids, int64_t num_ids, const Body& body) const {
  // As HostStore::Find: bucket, entry, comparison, a block of searches at a time.
  uint64_t hashes[kInFlight];
  uint32_t found[kInFlight];
  for (int64_t begin = 0; begin < num_ids; begin += kInFlight) {
    const int64_t count = std::min(kInFlight, num_ids - begin);
    for (int64_t i = 0; i < count; ++i) {
      hashes[i] = HashOf(table, ids[begin + i]);
      SFCTR_PREFETCH_READ(buckets_.data() + Home(hashes[i]));
    }
    for (int64_t i = 0; i < count; ++i) {
      found[i] = Probe(Home(hashes[i]), Tag(hashes[i]));
      if (buckets_[found[i]] != kEmpty) SFCTR_PREFETCH_WRITE(entries_.data() + (buckets_[found[i]] & slot_mask_));
    }
    for (int64_t i = 0; i < count; ++i) {
      uint32_t bucket = found[i];
      while (buckets_[bucket] != kEmpty && !Holds(buckets_[bucket] & slot_mask_, table, ids[begin + i])) {
        bucket = Probe(Next(bucket), Tag(hashes[i]));
      }
      body(begin + i, buckets_[bucket] == kEmpty ? kNoSlot : buckets_[bucket] & slot_mask_);
    }
  }
}

void CacheDirectory::Find(int table, const int64_t* ids, int64_t num_ids, uint32_t* slots) const {
  ForEachFound(table, ids, num_ids, [&](int64_t i, uint32_t slot) { slots[i] = slot; });
}

uint64_t CacheDirectory::Score(const Entry& entry) const {
  if (policy_ == CachePolicy::kLru) return entry.last_use;
  const uint64_t frequency = static_cast<uint64_t>(entry.num_uses) << 32 | entry.last_use;
  if (policy_ == CachePolicy::kLfu || !IsFuture(entry.future_use, now_)) return frequency;
  const uint64_t nearness = 0x8000u - static_cast<uint16_t>(entry.future_use - now_);
  return uint64_t{1} << 63 | nearness << 40 | frequency;
}

template <typename IsFreeToGo>
void CacheDirectory::FindCandidates(int64_t wanted, const IsFreeToGo& is_free_to_go) {
  const bool halve = num_given_up_ >= num_slots_;
  if (halve) num_given_up_ = 0;
  const auto keep = static_cast<size_t>(std::max(wanted, num_slots_ / kSlotsPerCandidate));
  candidates_.clear();
  candidates_.reserve(2 * keep);
  uint64_t limit = ~uint64_t{0};  // scores above it are not among the lowest `keep`
  for (int64_t slot = 0; slot < num_fresh_; ++slot) {
    Entry& entry = entries_[slot];
    if (halve) entry.num_uses = static_cast<uint8_t>((entry.num_uses + 1) / 2);
    if (entry.last_use == kFree || !is_free_to_go(static_cast<uint32_t>(slot))) continue;
    const uint64_t score = Score(entry);
    if (score > limit) continue;
    candidates_.push_back({score, static_cast<uint32_t>(slot)});
    if (candidates_.size() == 2 * keep) {
      std::nth_element(candidates_.begin(), candidates_.begin() + (keep - 1), candidates_.end());
      candidates_.resize(keep);
      limit = candidates_.back().score;
    }
  }
  std::sort(candidates_.begin(), candidates_.end());
  if (candidates_.size() > keep) candidates_.resize(keep);
  std::reverse(candidates_.begin(), candidates_.end());
}

Status CacheDirectory::Select(int table, const int64_t* ids, int64_t num_ids, uint32_t step, uint32_t oldest_unfinished,
                              const std::function<void(std::vector<bool>*)>& mark_in_flight,
                              CacheSelection* selection) {
  selection->slots = Buffer<uint32_t>(num_ids);
  selection->misses.clear();
  selection->victims.clear();
  if (num_ids > num_slots_) {
    return ResourceExhausted("a batch of " + std::to_string(num_ids) +
                             " distinct ids needs as many slots; the cache has " + std::to_string(num_slots_) +
                             ". Give it at least " + std::to_string(num_ids) + " rows, or lower the batch size.");
  }
  ForEachFound(table, ids, num_ids, [&](int64_t i, uint32_t slot) {
    selection->slots[i] = slot;
    if (slot == kNoSlot) {
      selection->misses.push_back(static_cast<int32_t>(i));
      return;
    }
    Entry& entry = entries_[slot];
    entry.num_uses += entry.last_use != step && entry.num_uses < 255;
    entry.last_use = step;
  });
  const auto num_misses = static_cast<int64_t>(selection->misses.size());
  const int64_t num_victims = num_misses - (num_slots_ - num_used_);
  bool searched = false;
  while (static_cast<int64_t>(selection->victims.size()) < num_victims) {
    if (candidates_.empty()) {
      if (searched) break;
      searched = true;
      selection->victims.clear();
      FindCandidates(num_victims, [&](uint32_t slot) { return entries_[slot].last_use < oldest_unfinished; });
      continue;
    }
    const Candidate candidate = candidates_.back();
    candidates_.pop_back();
    const Entry& entry = entries_[candidate.slot];
    if (entry.last_use < oldest_unfinished && Score(entry) == candidate.score) {
      selection->victims.push_back(candidate.slot);
    }
  }
  if (static_cast<int64_t>(selection->victims.size()) >= num_victims) return Status();
  // A batch that stays unfinished for long holds back what was used since; look at what it really uses.
  std::vector<bool> in_flight(num_slots_);
  mark_in_flight(&in_flight);
  for (int64_t i = 0; i < num_ids; ++i) {
    if (selection->slots[i] != kNoSlot) in_flight[selection->slots[i]] = true;
  }
  FindCandidates(num_victims, [&](uint32_t slot) { return !in_flight[slot]; });
  const auto num_found = static_cast<int64_t>(candidates_.size());
  selection->victims.clear();
  for (int64_t i = 1; i <= std::min(num_found, num_victims); ++i) {
    selection->victims.push_back(candidates_[num_found - i].slot);
  }
  candidates_.clear();  // not all of them pass the usual test
  if (num_found >= num_victims) return Status();
  selection->victims.clear();
  const auto num_in_flight = static_cast<int64_t>(std::count(in_flight.begin(), in_flight.end(), true));
  const std::string needed = std::to_string(num_in_flight + num_misses);
  return ResourceExhausted("the batches in flight need " + needed + " slots; the cache has " +
                           std::to_string(num_slots_) + ". Give it at least " + needed +
                           " rows, or lower the batch size.");
}

void CacheDirectory::Commit(int table, const int64_t* ids, uint32_t step, CacheSelection* selection) {
  num_given_up_ += static_cast<int64_t>(selection->victims.size());
  for (const uint32_t slot : selection->victims) Erase(slot);
  size_t next_victim = 0;
  for (const int32_t i : selection->misses) {
    uint32_t slot;
    if (next_victim < selection->victims.size()) {
      slot = selection->victims[next_victim++];
    } else if (!freed_.empty()) {
      slot = freed_.back();
      freed_.pop_back();
    } else {
      slot = static_cast<uint32_t>(num_fresh_++);
    }
    Entry& entry = entries_[slot];
    entry = {ids[i], step, now_, 1, static_cast<uint8_t>(table)};
    if (!awaited_.empty()) {
      const auto awaited = awaited_.find(HashOf(table, ids[i]));
      if (awaited != awaited_.end()) {
        entry.future_use = awaited->second;
        awaited_.erase(awaited);
      }
    }
    Insert(table, ids[i], slot);
    selection->slots[i] = slot;
  }
}

void CacheDirectory::Announce(int table, const int64_t* ids, int64_t num_ids, uint32_t number) {
  if (policy_ != CachePolicy::kLookAhead) return;
  // Batches that were announced and never came have left their ids here.
  if (static_cast<int64_t>(awaited_.size()) > std::max(kMinAwaited, 2 * num_slots_)) {
    for (auto it = awaited_.begin(); it != awaited_.end();) {
      it = IsFuture(it->second, now_) ? std::next(it) : awaited_.erase(it);
    }
  }
  const auto low_bits = static_cast<uint16_t>(number);
  ForEachFound(table, ids, num_ids, [&](int64_t i, uint32_t slot) {
    if (slot == kNoSlot) {
      awaited_[HashOf(table, ids[i])] = low_bits;
    } else {
      entries_[slot].future_use = low_bits;
    }
  });
}

void CacheDirectory::Arrive(uint32_t number) {
  const auto low_bits = static_cast<uint16_t>(number);
  if (IsFuture(low_bits, now_)) now_ = low_bits;
}

void CacheDirectory::Drop(int table) {
  std::vector<uint32_t> slots;
  ForEachSlot(table, [&](uint32_t slot) { slots.push_back(slot); });
  for (const uint32_t slot : slots) {
    Erase(slot);
    freed_.push_back(slot);
  }
  candidates_.clear();
}

void CacheDirectory::ForEachSlot(int table, const std::function<void(uint32_t slot)>& body) const {
  for (int64_t slot = 0; slot < num_fresh_; ++slot) {
    if (entries_[slot].last_use != kFree && entries_[slot].table == table) body(static_cast<uint32_t>(slot));
  }
}

void CacheDirectory::Insert(int table, int64_t id, uint32_t slot) {
  const uint64_t hash = HashOf(table, id);
  uint32_t bucket = Home(hash);
  while (buckets_[bucket] != kEmpty) bucket = Next(bucket);
  buckets_[bucket] = Tag(hash) | slot;
  ++num_used_;
}

void CacheDirectory::Erase(uint32_t slot) {
  const auto home_of = [&](uint32_t other) { return Home(HashOf(entries_[other].table, entries_[other].id)); };
  uint32_t hole = home_of(slot);
  while (buckets_[hole] == kEmpty || (buckets_[hole] & slot_mask_) != slot) hole = Next(hole);
  // Moves back what linear probing has pushed behind the hole, so that no search ends there too early.
  for (uint32_t bucket = Next(hole); buckets_[bucket] != kEmpty; bucket = Next(bucket)) {
    const uint32_t home = home_of(buckets_[bucket] & slot_mask_);
    const bool reaches = hole <= bucket ? (home <= hole || home > bucket) : (home <= hole && home > bucket);
    if (!reaches) continue;
    buckets_[hole] = buckets_[bucket];
    hole = bucket;
  }
  buckets_[hole] = kEmpty;
  entries_[slot].last_use = kFree;
  --num_used_;
}

}  // namespace sfctr
