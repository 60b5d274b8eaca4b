// SPDX-License-Identifier: Apache-2.0
#include "ops/core/unique.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "ops/core/buffer.h"
#include "ops/core/hash.h"

namespace sfctr {
namespace {

// Below this, one table in one thread is faster. Chosen by tests/core/unique_benchmark.cc.
constexpr int64_t kMinParallel = 16384;
// The same for a single thread, which gains only what partitions save in cache misses.
constexpr int64_t kMinPartitioned = 1 << 20;
// Ids of one partition: its table of 8-byte entries at most half full takes 256 KiB.
constexpr int64_t kPartitionIds = 16384;
constexpr int64_t kAhead = 8;  // entries prefetched ahead
constexpr int kMaxPartitions = 4096;

struct Entry {
  uint32_t hash;
  int32_t position;  // of the first appearance; -1: free
};

int64_t TableSize(int64_t num_ids) {
  int64_t size = 16;
  while (size < 2 * num_ids) size *= 2;
  return size;
}

// Position of the first appearance of ids[position]; notes it in the table if this is the first.
inline int32_t FirstPosition(const int64_t* ids, uint32_t hash, int32_t position, Entry* table, uint32_t mask) {
  const int64_t id = ids[position];
  for (uint32_t slot = hash & mask;; slot = (slot + 1) & mask) {
    Entry& entry = table[slot];
    if (entry.position < 0) {
      entry = {hash, position};
      return position;
    }
    if (entry.hash == hash && ids[entry.position] == id) return entry.position;
  }
}

int64_t UniqueSequential(const int64_t* ids, int64_t num_ids, std::optional<int64_t> padding_id, int64_t* unique_ids,
                         int32_t* inverse) {
  struct Slot {
    uint32_t hash;
    int32_t unique;  // -1: free
  };
  const int64_t size = TableSize(num_ids);
  std::vector<Slot> table(size, Slot{0, -1});
  const auto mask = static_cast<uint32_t>(size - 1);
  int32_t num_unique = 0;
  for (int64_t i = 0; i < num_ids; ++i) {
    const int64_t id = ids[i];
    if (padding_id.has_value() && id == *padding_id) {
      inverse[i] = kPadding;
      continue;
    }
    const uint32_t hash = IndexHash(id);
    for (uint32_t slot = hash & mask;; slot = (slot + 1) & mask) {
      Slot& entry = table[slot];
      if (entry.unique < 0) {
        entry = {hash, num_unique};
        unique_ids[num_unique] = id;
        inverse[i] = num_unique++;
        break;
      }
      if (entry.hash == hash && unique_ids[entry.unique] == id) {
        inverse[i] = entry.unique;
        break;
      }
    }
  }
  return num_unique;
}

}  // namespace

int64_t Unique(const int64_t* ids, int64_t num_ids, std::optional<int64_t> padding_id, int64_t* unique_ids,
               int32_t* inverse, Executor* executor) {
  if (num_ids < kMinParallel || (executor->num_threads() == 1 && num_ids < kMinPartitioned)) {
    return UniqueSequential(ids, num_ids, padding_id, unique_ids, inverse);
  }

  const int num_ranges = executor->num_threads();
  int partition_bits = 0;
  while ((int64_t{1} << partition_bits) < num_ranges || (num_ids >> partition_bits) > kPartitionIds) {
    if ((1 << partition_bits) == kMaxPartitions) break;
    ++partition_bits;
  }
  const int num_partitions = 1 << partition_bits;
  const auto partition_of = [=](uint32_t hash) {
    return static_cast<int>((static_cast<uint64_t>(hash) << partition_bits) >> 32);
  };
  const auto is_padding = [&](int64_t i) { return padding_id.has_value() && ids[i] == *padding_id; };

  // Each range of positions groups its own (hash, position) by partition; their order within a group is kept.
  // Group (range, partition) is grouped[offsets[k]] ... grouped[offsets[k + 1]], k = range * num_partitions +
  // partition.
  std::vector<int64_t> offsets(static_cast<size_t>(num_ranges) * num_partitions + 1, num_ids);
  Buffer<uint32_t> hashes(num_ids);
  Buffer<Entry> grouped(num_ids);
  executor->Run(num_ranges, [&](int range) {
    const int64_t begin = PartBegin(num_ids, range, num_ranges);
    const int64_t end = PartBegin(num_ids, range + 1, num_ranges);
    std::vector<int64_t> next(num_partitions, 0);
    for (int64_t i = begin; i < end; ++i) {
      hashes[i] = IndexHash(ids[i]);
      ++next[partition_of(hashes[i])];
    }
    int64_t total = begin;
    for (int p = 0; p < num_partitions; ++p) {
      offsets[static_cast<size_t>(range) * num_partitions + p] = total;
      total += std::exchange(next[p], total);
    }
    for (int64_t i = begin; i < end; ++i) {
      grouped[next[partition_of(hashes[i])]++] = {hashes[i], static_cast<int32_t>(i)};
    }
  });

  // Per partition: inverse[i] = position of the first appearance of ids[i]; and how many of them each range has.
  const int num_groups = std::min(num_partitions, num_ranges);
  std::vector<int64_t> num_first(static_cast<size_t>(num_groups) * num_ranges, 0);
  executor->Run(num_groups, [&](int group) {
    std::vector<Entry> table;
    std::vector<int64_t> first(num_ranges, 0);
    const int last = static_cast<int>(PartBegin(num_partitions, group + 1, num_groups));
    for (int p = static_cast<int>(PartBegin(num_partitions, group, num_groups)); p < last; ++p) {
      int64_t count = 0;
      for (int range = 0; range < num_ranges; ++range) {
        const size_t k = static_cast<size_t>(range) * num_partitions + p;
        count += offsets[k + 1] - offsets[k];
      }
      const int64_t size = TableSize(count);
      const auto mask = static_cast<uint32_t>(size - 1);
      table.assign(size, Entry{0, -1});
      for (int range = 0; range < num_ranges; ++range) {
        const size_t k = static_cast<size_t>(range) * num_partitions + p;
        const int64_t end = offsets[k + 1];
        for (int64_t g = offsets[k]; g < end; ++g) {
          if (g + kAhead < end) SFCTR_PREFETCH_READ(&table[grouped[g + kAhead].hash & mask]);
          const int32_t i = grouped[g].position;
          inverse[i] = is_padding(i) ? kPadding : FirstPosition(ids, grouped[g].hash, i, table.data(), mask);
          first[range] += inverse[i] == i;
        }
      }
    }
    std::copy(first.begin(), first.end(), num_first.begin() + static_cast<int64_t>(group) * num_ranges);
  });

  // Number the first appearances in the order of their positions, then replace positions by numbers.
  std::vector<int64_t> first_rank(num_ranges + 1, 0);
  for (int range = 0; range < num_ranges; ++range) {
    first_rank[range + 1] = first_rank[range];
    for (int group = 0; group < num_groups; ++group) first_rank[range + 1] += num_first[group * num_ranges + range];
  }
  auto* rank = reinterpret_cast<int32_t*>(hashes.data());  // the hashes are done with
  executor->Run(num_ranges, [&](int range) {
    int64_t next = first_rank[range];
    const int64_t end = PartBegin(num_ids, range + 1, num_ranges);
    for (int64_t i = PartBegin(num_ids, range, num_ranges); i < end; ++i) {
      if (inverse[i] != i) continue;
      unique_ids[next] = ids[i];
      rank[i] = static_cast<int32_t>(next++);
    }
  });
  executor->Run(num_ranges, [&](int range) {
    const int64_t end = PartBegin(num_ids, range + 1, num_ranges);
    for (int64_t i = PartBegin(num_ids, range, num_ranges); i < end; ++i) {
      if (inverse[i] != kPadding) inverse[i] = rank[inverse[i]];
    }
  });
  return first_rank[num_ranges];
}

}  // namespace sfctr
