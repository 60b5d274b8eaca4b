// SPDX-License-Identifier: Apache-2.0
#include "ops/core/host_store.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "ops/core/hash.h"

namespace sfctr {
namespace {

// Searches in flight at once: enough to cover a memory access, few enough for the load buffers.
// Chosen by tests/core/store_benchmark.cc.
constexpr int64_t kInFlight = 64;
constexpr size_t kInsertsAhead = 16;
constexpr int64_t kMinFindsPerPart = 1024;
constexpr int64_t kMinCreatesPerPart = 256;

int64_t StrideBytes(int64_t header_bytes, int64_t row_floats) {
  const int64_t bytes = header_bytes + 4 * row_floats;
  return header_bytes == 0 ? bytes : (bytes + 7) / 8 * 8;
}

}  // namespace

HostStore::HostStore(int64_t input_dim, RowLayout layout, Status* status)
    : input_dim_(input_dim),
      layout_(std::move(layout)),
      header_bytes_(input_dim > 0 ? 0 : static_cast<int64_t>(sizeof(int64_t))),
      storage_(StrideBytes(header_bytes_, layout_.row_floats())) {
  if (input_dim_ == 0) {
    index_ = std::make_unique<IdIndex>();
    return;
  }
  exists_ = std::make_unique<std::atomic<uint64_t>[]>((input_dim_ + 63) / 64);
  *status = storage_.Reserve(input_dim_);
}

int64_t HostStore::index_bytes() const {
  return index_ != nullptr ? index_->memory_bytes() : (input_dim_ + 63) / 64 * 8;
}

Status HostStore::CheckIds(const int64_t* ids, int64_t num_ids) const {
  if (input_dim_ == 0) return Status();
  // Without a branch per id, so that the good case is vectorised.
  bool inside = true;
  for (int64_t i = 0; i < num_ids; ++i) inside &= static_cast<uint64_t>(ids[i]) < static_cast<uint64_t>(input_dim_);
  if (inside) return Status();
  int64_t i = 0;
  while (static_cast<uint64_t>(ids[i]) < static_cast<uint64_t>(input_dim_)) ++i;
  return InvalidArgument("ids must be in [0, " + std::to_string(input_dim_) + ") (input_dim); got " +
                         std::to_string(ids[i]) + ". Raise input_dim, or leave it out to accept any 64-bit id.");
}

void HostStore::PrefetchForRead(uint32_t number, int64_t num_floats) const {
  ForEachCacheLine(storage_.row(number), header_bytes_ + 4 * num_floats,
                   [](const char* line) { SFCTR_PREFETCH_READ(line); });
}

void HostStore::PrefetchForWrite(uint32_t number) const {
  ForEachCacheLine(storage_.row(number), storage_.stride_bytes(), [](const char* line) { SFCTR_PREFETCH_WRITE(line); });
}

void HostStore::FindHashed(const int64_t* ids, int64_t num_ids, uint32_t* rows) const {
  // Three stages, a block of searches at a time, so that the misses of one search overlap those of its neighbours:
  // bucket, row, comparison.
  uint32_t hashes[kInFlight];
  IdIndex::Cursor cursors[kInFlight];
  for (int64_t begin = 0; begin < num_ids; begin += kInFlight) {
    const int64_t count = std::min(kInFlight, num_ids - begin);
    for (int64_t i = 0; i < count; ++i) {
      hashes[i] = IndexHash(ids[begin + i]);
      index_->Start(hashes[i], &cursors[i]);
    }
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t candidate = index_->NextCandidate(hashes[i], &cursors[i]);
      rows[begin + i] = candidate;
      if (candidate != kNoRow) PrefetchForRead(candidate, layout_.embedding_floats());
    }
    for (int64_t i = 0; i < count; ++i) {
      uint32_t candidate = rows[begin + i];
      while (candidate != kNoRow && id_of(candidate) != ids[begin + i]) {
        candidate = index_->NextCandidate(hashes[i], &cursors[i]);
      }
      rows[begin + i] = candidate;
    }
  }
}

void HostStore::Find(const int64_t* ids, int64_t num_ids, uint32_t* rows, Executor* executor) const {
  ParallelFor(executor, num_ids, kMinFindsPerPart, [&](int64_t begin, int64_t end) {
    if (index_ != nullptr) {
      FindHashed(ids + begin, end - begin, rows + begin);
      return;
    }
    for (int64_t i = begin; i < end; ++i) rows[i] = Exists(ids[i]) ? static_cast<uint32_t>(ids[i]) : kNoRow;
  });
}

Status HostStore::Create(const int64_t* ids, int64_t num_ids, uint32_t* rows, Executor* executor) {
  std::vector<int64_t> missing;  // positions
  for (int64_t i = 0; i < num_ids; ++i) {
    if (rows[i] == kNoRow) missing.push_back(i);
  }
  if (missing.empty()) return Status();
  const auto num_missing = static_cast<int64_t>(missing.size());

  if (index_ != nullptr) {
    if (size_ + num_missing >= kNoRow) {
      return ResourceExhausted("a table holds at most " + std::to_string(kNoRow) + " rows; it has " +
                               std::to_string(size_) + " and needs " + std::to_string(num_missing) +
                               " more. Split the features over several tables.");
    }
    SFCTR_RETURN_IF_ERROR(storage_.Reserve(size_ + num_missing));
    const auto first = static_cast<uint32_t>(size_);
    const int parts = NumParts(*executor, num_missing, kMinCreatesPerPart);
    executor->Run(parts, [&](int part) {
      struct Insertion {
        uint32_t hash;
        uint32_t row;
      };
      std::vector<Insertion> insertions;
      insertions.reserve(2 * num_missing / parts);
      for (int64_t k = 0; k < num_missing; ++k) {
        const uint32_t hash = IndexHash(ids[missing[k]]);
        if (IdIndex::Shard(hash) % parts == part) insertions.push_back({hash, first + static_cast<uint32_t>(k)});
      }
      const size_t count = insertions.size();
      for (size_t i = 0; i < count; ++i) {
        if (i + kInsertsAhead < count) index_->PrefetchForInsert(insertions[i + kInsertsAhead].hash);
        index_->Insert(insertions[i].hash, insertions[i].row);
      }
    });
    for (int64_t k = 0; k < num_missing; ++k) rows[missing[k]] = first + static_cast<uint32_t>(k);
  } else {
    for (int64_t i : missing) {
      rows[i] = static_cast<uint32_t>(ids[i]);
      exists_[ids[i] >> 6].fetch_or(uint64_t{1} << (ids[i] & 63), std::memory_order_relaxed);
    }
  }
  ParallelFor(executor, num_missing, kMinCreatesPerPart, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const int64_t i = missing[k];
      if (header_bytes_ > 0) *reinterpret_cast<int64_t*>(storage_.row(rows[i])) = ids[i];
      layout_.InitializeEmbedding(ids[i], row(rows[i]));
      layout_.InitializeStates(row(rows[i]));
    }
  });
  size_ += num_missing;
  return Status();
}

int64_t HostStore::NextRow(int64_t number) const {
  if (index_ != nullptr) return number < size_ ? number : -1;
  for (int64_t word = number >> 6; word < (input_dim_ + 63) / 64; ++word) {
    uint64_t bits = exists_[word].load(std::memory_order_relaxed);
    if (word == number >> 6) bits &= ~uint64_t{0} << (number & 63);
    if (bits != 0) return word * 64 + __builtin_ctzll(bits);
  }
  return -1;
}

}  // namespace sfctr
