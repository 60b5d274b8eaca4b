// SPDX-License-Identifier: Apache-2.0
// The host store: finding rows of a batch, creating rows, and the searches in flight that kInFlight (host_store.cc)
// should be. Rows are of Criteo's shape: dim 16 with Adagrad.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "ops/core/host_store.h"
#include "ops/core/id_index.h"
#include "tests/core/test_util.h"

namespace sfctr {
namespace {

constexpr int64_t kBatch = 1 << 15;
constexpr int64_t kBatches = 64;

std::vector<int64_t> AllIds(int64_t num_rows) {
  std::vector<int64_t> ids(num_rows);
  for (int64_t i = 0; i < num_rows; ++i) ids[i] = static_cast<int64_t>(Mix64(i));
  return ids;
}

// One store a size, kept over the runs of a benchmark.
const HostStore& FilledStore(int64_t num_rows, bool hashed) {
  static std::unique_ptr<HostStore> store;
  static int64_t filled = 0;
  if (store == nullptr || filled != num_rows || (store->input_dim() == 0) != hashed) {
    store.reset();
    Status status;
    store =
        std::make_unique<HostStore>(hashed ? 0 : num_rows, RowLayout(1, {Group(16, OptimizerKind::kAdagrad)}), &status);
    std::vector<int64_t> ids = AllIds(num_rows);
    if (!hashed) std::iota(ids.begin(), ids.end(), 0);
    std::vector<uint32_t> rows(num_rows, kNoRow);
    ThreadExecutor executor(2);
    store->Create(ids.data(), num_rows, rows.data(), &executor);
    filled = num_rows;
  }
  return *store;
}

// Unique ids of batches whose frequencies follow a power law.
std::vector<std::vector<int64_t>> Traces(int64_t num_rows, bool hashed, double skew) {
  std::vector<std::vector<int64_t>> batches;
  for (int64_t b = 0; b < kBatches; ++b) {
    std::vector<int64_t> ids = PowerLawIds(kBatch, num_rows, skew, b);
    for (int64_t& id : ids) id = hashed ? static_cast<int64_t>(Mix64(id)) : id;
    batches.push_back(TestUse(ids).unique_ids());
  }
  return batches;
}

// Arguments: rows, hashed, threads.
void BM_Find(benchmark::State& state) {
  const HostStore& store = FilledStore(state.range(0), state.range(1) != 0);
  const auto batches = Traces(state.range(0), state.range(1) != 0, 1.05);
  ThreadExecutor executor(static_cast<int>(state.range(2)));
  std::vector<uint32_t> rows(kBatch);
  int64_t num_ids = 0;
  for (auto _ : state) {
    for (const auto& ids : batches) {
      store.Find(ids.data(), static_cast<int64_t>(ids.size()), rows.data(), &executor);
      benchmark::DoNotOptimize(rows.data());
      num_ids += static_cast<int64_t>(ids.size());
    }
  }
  state.SetItemsProcessed(num_ids);
}
BENCHMARK(BM_Find)
    ->ArgNames({"rows", "hashed", "threads"})
    ->Args({1 << 16, 1, 1})
    ->Args({1 << 20, 1, 1})
    ->Args({10 << 20, 1, 1})
    ->Args({10 << 20, 1, 2})
    ->Args({10 << 20, 0, 1})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

// HostStore::FindHashed with another number of searches in flight.
template <int64_t kInFlight>
void BM_FindInFlight(benchmark::State& state) {
  const int64_t num_rows = state.range(0);
  const HostStore& store = FilledStore(num_rows, /*hashed=*/true);
  static std::unique_ptr<IdIndex> index;
  static int64_t indexed = 0;
  if (indexed != num_rows) {
    index = std::make_unique<IdIndex>();
    for (uint32_t row = 0; row < num_rows; ++row) index->Insert(IndexHash(store.id_of(row)), row);
    indexed = num_rows;
  }
  const auto batches = Traces(num_rows, /*hashed=*/true, 1.05);
  std::vector<uint32_t> rows(kBatch);
  int64_t num_found = 0;
  for (auto _ : state) {
    for (const auto& ids : batches) {
      uint32_t hashes[kInFlight];
      IdIndex::Cursor cursors[kInFlight];
      const auto num_ids = static_cast<int64_t>(ids.size());
      for (int64_t begin = 0; begin < num_ids; begin += kInFlight) {
        const int64_t count = std::min(kInFlight, num_ids - begin);
        for (int64_t i = 0; i < count; ++i) {
          hashes[i] = IndexHash(ids[begin + i]);
          index->Start(hashes[i], &cursors[i]);
        }
        for (int64_t i = 0; i < count; ++i) {
          const uint32_t candidate = index->NextCandidate(hashes[i], &cursors[i]);
          rows[begin + i] = candidate;
          if (candidate != kNoRow) store.PrefetchForRead(candidate, 16);
        }
        for (int64_t i = 0; i < count; ++i) {
          uint32_t candidate = rows[begin + i];
          while (candidate != kNoRow && store.id_of(candidate) != ids[begin + i]) {
            candidate = index->NextCandidate(hashes[i], &cursors[i]);
          }
          rows[begin + i] = candidate;
        }
      }
      benchmark::DoNotOptimize(rows.data());
      num_found += num_ids;
    }
  }
  state.SetItemsProcessed(num_found);
}
#define IN_FLIGHT(n) \
  BENCHMARK_TEMPLATE(BM_FindInFlight, n)->ArgName("rows")->Arg(1 << 20)->Arg(10 << 20)->Unit(benchmark::kMillisecond)
IN_FLIGHT(1);
IN_FLIGHT(4);
IN_FLIGHT(8);
IN_FLIGHT(12);
IN_FLIGHT(16);
IN_FLIGHT(24);
IN_FLIGHT(32);
IN_FLIGHT(64);
IN_FLIGHT(128);
IN_FLIGHT(256);

// Rows into an empty store, batch by batch.
void BM_Create(benchmark::State& state) {
  const int64_t num_rows = state.range(0);
  const std::vector<int64_t> ids = AllIds(num_rows);
  ThreadExecutor executor(static_cast<int>(state.range(1)));
  for (auto _ : state) {
    Status status;
    HostStore store(0, RowLayout(1, {Group(16, OptimizerKind::kAdagrad)}), &status);
    std::vector<uint32_t> rows(kBatch);
    for (int64_t begin = 0; begin < num_rows; begin += kBatch) {
      const int64_t count = std::min(kBatch, num_rows - begin);
      std::fill(rows.begin(), rows.end(), kNoRow);
      store.Create(ids.data() + begin, count, rows.data(), &executor);
    }
    state.counters["index_bytes_per_row"] =
        static_cast<double>(store.index_bytes()) / static_cast<double>(store.size());
  }
  state.SetItemsProcessed(state.iterations() * num_rows);
}
BENCHMARK(BM_Create)
    ->ArgNames({"rows", "threads"})
    ->Args({1 << 20, 1})
    ->Args({1 << 20, 2})
    ->Args({4 << 20, 1})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sfctr
