// SPDX-License-Identifier: Apache-2.0
// Index of a hashed table: 64-bit id -> row number. It stores no ids; the rows do, and decide.
//
// Extendible hashing over segments of open addressing:
//   shard    = top 6 bits of the 32-bit hash; shards are independent, so threads insert in parallel
//   segment  = next `depth` bits, through the shard's directory
//   bucket   = lowest bits; one cache line of 8 stored hashes and 8 row numbers, probed linearly
// A full segment doubles until it has kMaxBuckets, then splits in two. Either moves at most one segment (a few ten
// thousand entries, from the stored hashes alone), and segments are full at different loads, so that they do not all
// split at once: no insertion pauses for longer as the table grows. About 13 bytes a row, less than 24 always.
//
// NextCandidate() may return a row of another id with the same hash: the caller compares the id in the row and asks for
// the next candidate. Rows are not removed.
//
// Thread-safety: lookups may run beside each other. Insert() may run beside Insert() of other shards only.
#ifndef TF_SFCTR_OPS_CORE_ID_INDEX_H_
#define TF_SFCTR_OPS_CORE_ID_INDEX_H_

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "ops/core/mapped_memory.h"
#include "ops/core/platform.h"

namespace sfctr {

constexpr uint32_t kNoRow = 0xFFFFFFFFu;

class IdIndex {
 public:
  static constexpr int kShardBits = 6;
  static constexpr int kNumShards = 1 << kShardBits;

  struct alignas(64) Bucket {
    uint32_t hash[8];
    uint32_t row[8];  // kNoRow: the slot and all after it are free
  };

  // Where a search stands; begin with Start().
  struct Cursor {
    const Bucket* buckets;
    uint32_t mask;
    uint32_t bucket;
    uint32_t matches;  // slots of the bucket not yet returned
  };

  IdIndex();

  static int Shard(uint32_t hash) { return static_cast<int>(hash >> (32 - kShardBits)); }

  // Places the cursor at the bucket of `hash` and prefetches it.
  void Start(uint32_t hash, Cursor* cursor) const {
    const Segment& segment = FindSegment(hash);
    cursor->buckets = segment.buckets.get();
    cursor->mask = segment.mask;
    cursor->bucket = hash & segment.mask;
    cursor->matches = kUnread;
    SFCTR_PREFETCH_READ(cursor->buckets + cursor->bucket);
  }

  // Next row whose stored hash is `hash`; kNoRow when there is none.
  uint32_t NextCandidate(uint32_t hash, Cursor* cursor) const {
    for (;;) {
      const Bucket& bucket = cursor->buckets[cursor->bucket];
      if (cursor->matches == kUnread) cursor->matches = Matches(bucket, hash);
      if (cursor->matches != 0) {
        const int slot = __builtin_ctz(cursor->matches);
        cursor->matches &= cursor->matches - 1;
        return bucket.row[slot];
      }
      if (bucket.row[7] == kNoRow) return kNoRow;
      cursor->bucket = (cursor->bucket + 1) & cursor->mask;
      cursor->matches = kUnread;
    }
  }

  // Asks for the bucket that Insert() will write.
  void PrefetchForInsert(uint32_t hash) const {
    const Segment& segment = FindSegment(hash);
    SFCTR_PREFETCH_WRITE(segment.buckets.get() + (hash & segment.mask));
  }

  // Adds a row. REQUIRES: the id is not in the index.
  void Insert(uint32_t hash, uint32_t row);

  int64_t memory_bytes() const;

 private:
  // 256 KiB of buckets: half an L2 cache, so that a split stays cheap.
  static constexpr uint32_t kMaxBuckets = 4096;
  static constexpr uint32_t kUnread = 0xFFFFFFFFu;

  // Blocks of kMaxBuckets buckets on huge pages; all segments of a large table have that size, so a block given back
  // by a split serves the next one. Thread-safe.
  class Arena {
   public:
    Bucket* Take();
    void GiveBack(Bucket* block);

   private:
    std::mutex mutex_;
    std::vector<MappedMemory> chunks_;
    std::vector<Bucket*> free_;
  };

  struct FreeBuckets {
    explicit FreeBuckets(Arena* arena_or_null) : arena(arena_or_null) {}
    Arena* arena;  // null: from operator new
    void operator()(Bucket* buckets) const;
  };
  using Buckets = std::unique_ptr<Bucket[], FreeBuckets>;

  struct Segment {
    Buckets buckets{nullptr, FreeBuckets(nullptr)};
    uint32_t mask = 0;      // number of buckets - 1
    uint32_t size = 0;      // rows in it
    int local_depth = 0;    // directory bits that all its hashes share
    uint32_t max_load = 0;  // of its 32nds of slots; see NewSegment
  };

  struct ShardIndex {
    int depth = 0;
    std::vector<Segment*> directory;  // 2^depth
    std::vector<std::unique_ptr<Segment>> segments;
  };

  const Segment& FindSegment(uint32_t hash) const { return *shards_[Shard(hash)].directory[DirectorySlot(hash)]; }
  uint32_t DirectorySlot(uint32_t hash) const {
    // Two shifts, because a shift by 32 is undefined at depth 0.
    return ((hash << kShardBits) >> 1) >> (31 - shards_[Shard(hash)].depth);
  }

  static uint32_t Matches(const Bucket& bucket, uint32_t hash) {
#ifdef __SSE2__
    const __m128i wanted = _mm_set1_epi32(static_cast<int>(hash));
    const __m128i none = _mm_set1_epi32(-1);
    const auto* hashes = reinterpret_cast<const __m128i*>(bucket.hash);
    const auto* rows = reinterpret_cast<const __m128i*>(bucket.row);
    const __m128i low =
        _mm_andnot_si128(_mm_cmpeq_epi32(_mm_load_si128(rows), none), _mm_cmpeq_epi32(_mm_load_si128(hashes), wanted));
    const __m128i high = _mm_andnot_si128(_mm_cmpeq_epi32(_mm_load_si128(rows + 1), none),
                                          _mm_cmpeq_epi32(_mm_load_si128(hashes + 1), wanted));
    return static_cast<uint32_t>(_mm_movemask_ps(_mm_castsi128_ps(low))) |
           static_cast<uint32_t>(_mm_movemask_ps(_mm_castsi128_ps(high))) << 4;
#else
    uint32_t matches = 0;
    for (int i = 0; i < 8; ++i)
      matches |= static_cast<uint32_t>(bucket.hash[i] == hash && bucket.row[i] != kNoRow) << i;
    return matches;
#endif
  }

  Buckets NewBuckets(uint32_t num_buckets);
  static void Place(Bucket* buckets, uint32_t mask, uint32_t hash, uint32_t row);
  Segment* NewSegment(ShardIndex* shard, uint32_t num_buckets, int local_depth);
  void Grow(Segment* segment);
  void Split(ShardIndex* shard, Segment* segment, uint32_t hash);

  std::unique_ptr<Arena> arena_;  // outlives the segments
  std::vector<ShardIndex> shards_;
};

}  // namespace sfctr

#endif  // TF_SFCTR_OPS_CORE_ID_INDEX_H_
