// SPDX-License-Identifier: Apache-2.0
#include "ops/core/id_index.h"

#include <cstring>
#include <new>
#include <utility>

#include "ops/core/hash.h"

namespace sfctr {
namespace {

constexpr int kSlots = 8;
constexpr int64_t kArenaChunkBytes = int64_t{8} << 20;

// Segments are full at 22 to 28 32nds of their slots. At most 7 of 8: probes stay short, and there is always a free
// slot to end at.
constexpr uint32_t kMinLoad = 22;
constexpr uint32_t kLoads = 7;

uint32_t MaxSize(uint32_t mask, uint32_t max_load) { return (mask + 1) * kSlots / 4 * max_load / 8; }

}  // namespace

IdIndex::Bucket* IdIndex::Arena::Take() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (free_.empty()) {
    MappedMemory chunk = Map(kArenaChunkBytes, 0);
    if (chunk == nullptr) throw std::bad_alloc();
    constexpr int64_t kBlockBytes = kMaxBuckets * sizeof(Bucket);
    for (int64_t offset = kArenaChunkBytes - kBlockBytes; offset >= 0; offset -= kBlockBytes) {
      free_.push_back(reinterpret_cast<Bucket*>(chunk.get() + offset));
    }
    chunks_.push_back(std::move(chunk));
  }
  Bucket* block = free_.back();
  free_.pop_back();
  return block;
}

void IdIndex::Arena::GiveBack(Bucket* block) {
  std::lock_guard<std::mutex> lock(mutex_);
  free_.push_back(block);
}

void IdIndex::FreeBuckets::operator()(Bucket* buckets) const {
  if (arena != nullptr) {
    arena->GiveBack(buckets);
  } else {
    ::operator delete[](buckets, std::align_val_t{64});
  }
}

IdIndex::Buckets IdIndex::NewBuckets(uint32_t num_buckets) {
  const size_t bytes = sizeof(Bucket) * num_buckets;
  Arena* const arena = num_buckets == kMaxBuckets ? arena_.get() : nullptr;
  auto* buckets =
      arena != nullptr ? arena->Take() : static_cast<Bucket*>(::operator new[](bytes, std::align_val_t{64}));
  memset(buckets, 0xFF, bytes);  // kNoRow everywhere
  return Buckets(buckets, FreeBuckets(arena));
}

IdIndex::IdIndex() : arena_(std::make_unique<Arena>()), shards_(kNumShards) {
  for (ShardIndex& shard : shards_) shard.directory.push_back(NewSegment(&shard, 1, 0));
}

IdIndex::Segment* IdIndex::NewSegment(ShardIndex* shard, uint32_t num_buckets, int local_depth) {
  shard->segments.push_back(std::make_unique<Segment>());
  Segment* segment = shard->segments.back().get();
  segment->buckets = NewBuckets(num_buckets);
  segment->mask = num_buckets - 1;
  segment->local_depth = local_depth;
  // Hashes fill all segments evenly; with one load for all they would all split at the same time.
  const uint64_t number = (static_cast<uint64_t>(shard - shards_.data()) << 32) + shard->segments.size();
  segment->max_load = kMinLoad + static_cast<uint32_t>(Mix64(number) % kLoads);
  return segment;
}

void IdIndex::Place(Bucket* buckets, uint32_t mask, uint32_t hash, uint32_t row) {
  for (uint32_t b = hash & mask;; b = (b + 1) & mask) {
    Bucket& bucket = buckets[b];
    for (int slot = 0; slot < kSlots; ++slot) {
      if (bucket.row[slot] != kNoRow) continue;
      bucket.hash[slot] = hash;
      bucket.row[slot] = row;
      return;
    }
  }
}

void IdIndex::Grow(Segment* segment) {
  const uint32_t mask = 2 * segment->mask + 1;
  Buckets buckets = NewBuckets(mask + 1);
  for (uint32_t b = 0; b <= segment->mask; ++b) {
    const Bucket& bucket = segment->buckets[b];
    for (int slot = 0; slot < kSlots && bucket.row[slot] != kNoRow; ++slot) {
      Place(buckets.get(), mask, bucket.hash[slot], bucket.row[slot]);
    }
  }
  segment->buckets = std::move(buckets);
  segment->mask = mask;
}

void IdIndex::Split(ShardIndex* shard, Segment* segment, uint32_t hash) {
  if (segment->local_depth == shard->depth) {
    std::vector<Segment*> directory(2 * shard->directory.size());
    for (size_t i = 0; i < directory.size(); ++i) directory[i] = shard->directory[i / 2];
    shard->directory = std::move(directory);
    ++shard->depth;
  }
  Segment* high = NewSegment(shard, segment->mask + 1, ++segment->local_depth);
  Buckets low = NewBuckets(segment->mask + 1);
  const int bit = 32 - kShardBits - segment->local_depth;
  uint32_t low_size = 0;
  for (uint32_t b = 0; b <= segment->mask; ++b) {
    const Bucket& bucket = segment->buckets[b];
    for (int slot = 0; slot < kSlots && bucket.row[slot] != kNoRow; ++slot) {
      if ((bucket.hash[slot] >> bit) & 1) {
        Place(high->buckets.get(), high->mask, bucket.hash[slot], bucket.row[slot]);
        ++high->size;
      } else {
        Place(low.get(), segment->mask, bucket.hash[slot], bucket.row[slot]);
        ++low_size;
      }
    }
  }
  segment->buckets = std::move(low);
  segment->size = low_size;
  // The directory slots of the old segment are one aligned run; its upper half is the new segment's.
  const int free_bits = shard->depth - segment->local_depth;
  const uint32_t first_high = ((DirectorySlot(hash) >> free_bits) | 1u) << free_bits;
  for (uint32_t i = 0; i < (1u << free_bits); ++i) shard->directory[first_high + i] = high;
}

void IdIndex::Insert(uint32_t hash, uint32_t row) {
  ShardIndex& shard = shards_[Shard(hash)];
  Segment* segment = shard.directory[DirectorySlot(hash)];
  while (segment->size >= MaxSize(segment->mask, segment->max_load)) {
    // The bits of the directory and of the bucket must not meet: beyond that a segment only doubles.
    const bool may_split = segment->local_depth < 32 - kShardBits - 12;
    if (segment->mask + 1 < kMaxBuckets || !may_split) {
      Grow(segment);
    } else {
      Split(&shard, segment, hash);
      segment = shard.directory[DirectorySlot(hash)];
    }
  }
  Place(segment->buckets.get(), segment->mask, hash, row);
  ++segment->size;
}

int64_t IdIndex::memory_bytes() const {
  int64_t bytes = 0;
  for (const ShardIndex& shard : shards_) {
    bytes += static_cast<int64_t>(shard.directory.capacity() * sizeof(Segment*));
    for (const auto& segment : shard.segments) {
      bytes += static_cast<int64_t>(sizeof(Segment) + (segment->mask + 1) * sizeof(Bucket));
    }
  }
  return bytes;
}

}  // namespace sfctr
