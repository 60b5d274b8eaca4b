// SPDX-License-Identifier: Apache-2.0
// A step of a table (dedup, lookup, update) at Criteo's shape, and the rows to prefetch ahead that kAhead (table.cc,
// combine.cc) should be.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "ops/core/host_store.h"
#include "ops/core/table.h"
#include "tests/core/table_oracle.h"
#include "tests/core/test_util.h"

namespace sfctr {
namespace {

constexpr int64_t kIdsPerStep = 4096 * 26;
constexpr int64_t kSteps = 16;
constexpr int64_t kDim = 16;

RowLayout Layout() { return RowLayout(1, {Group(kDim, OptimizerKind::kAdagrad)}); }

std::vector<int64_t> StepIds(int64_t num_rows, bool hashed, int64_t step) {
  std::vector<int64_t> ids = PowerLawIds(kIdsPerStep, num_rows, 1.05, step);
  for (int64_t& id : ids) id = hashed ? static_cast<int64_t>(Mix64(id)) : id;
  return ids;
}

// Every row exists, so that steps touch memory as in the middle of training.
std::shared_ptr<Table> FilledTable(int64_t num_rows, bool hashed) {
  auto table = MakeTable(Layout(), hashed ? 0 : num_rows);
  ThreadExecutor executor(2);
  constexpr int64_t kChunk = 1 << 16;
  const std::vector<float> values(kChunk * kDim, 0.01f);
  std::vector<int64_t> ids(kChunk);
  for (int64_t begin = 0; begin < num_rows; begin += kChunk) {
    const int64_t count = std::min(kChunk, num_rows - begin);
    for (int64_t i = 0; i < count; ++i) ids[i] = hashed ? static_cast<int64_t>(Mix64(begin + i)) : begin + i;
    table->Import(ids.data(), count, values.data(), kDim, &executor);
  }
  return table;
}

// Arguments: rows, hashed, threads. Dedup, lookup and update of 4096 samples of 26 ids.
void BM_Step(benchmark::State& state) {
  const bool hashed = state.range(1) != 0;
  const auto table = FilledTable(state.range(0), hashed);
  ThreadExecutor executor(static_cast<int>(state.range(2)));
  std::vector<std::vector<int64_t>> steps;
  for (int64_t step = 0; step < kSteps; ++step) steps.push_back(StepIds(state.range(0), hashed, step));
  std::vector<float> values(kIdsPerStep * kDim);
  const std::vector<float> gradients = RandomFloats(kIdsPerStep * kDim, 1, -1e-3f, 1e-3f);
  std::vector<int32_t> inverse(kIdsPerStep);
  for (auto _ : state) {
    for (const auto& ids : steps) {
      Gradient gradient;
      gradient.batch =
          std::make_shared<VirtualBatch>(Virtualize(ids.data(), kIdsPerStep, std::nullopt, inverse.data(), &executor));
      gradient.positions.inverse = inverse.data();
      gradient.positions.num_ids = kIdsPerStep;
      table->Lookup(table->PartOf(gradient.batch.get()).get(), gradient.positions, {{values.data(), kDim, kDim}}, true,
                    &executor);
      gradient.columns.push_back({gradients.data(), kDim, kDim});
      PushAll(table.get(), {gradient}, {0.01f}, &executor);
    }
  }
  state.SetItemsProcessed(state.iterations() * kSteps * kIdsPerStep);
}
BENCHMARK(BM_Step)
    ->ArgNames({"rows", "hashed", "threads"})
    ->ArgsProduct({{1 << 20, 10 << 20}, {0, 1}, {1, 2}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

// Rows in memory and the row numbers of steps, for the two loops that prefetch.
struct Rows {
  std::vector<float> memory;
  std::vector<std::vector<uint32_t>> unique_rows;
  std::vector<std::vector<int32_t>> inverses;
};

Rows& BigRows(int64_t num_rows) {
  static Rows rows;
  if (rows.memory.empty()) {
    rows.memory.assign(num_rows * 2 * kDim, 0.1f);
    for (int64_t step = 0; step < kSteps; ++step) {
      const TestUse use(StepIds(num_rows, false, step));
      rows.unique_rows.emplace_back(use.unique_ids().begin(), use.unique_ids().end());
      rows.inverses.push_back(use.inverse());
    }
  }
  return rows;
}

constexpr int64_t kBigRows = 10 << 20;

// Table::Apply's loop over unique rows: embedding and accumulator are two cache lines.
template <int64_t kAhead>
void BM_UpdateAhead(benchmark::State& state) {
  Rows& rows = BigRows(kBigRows);
  float* memory = rows.memory.data();
  const Optimizer optimizer = Group(kDim, OptimizerKind::kAdagrad).optimizer;
  const UpdateScalars scalars = MakeUpdateScalars(optimizer, 0.01f, 1);
  int64_t num_updates = 0;
  for (auto _ : state) {
    for (const auto& unique_rows : rows.unique_rows) {
      const auto n = static_cast<int64_t>(unique_rows.size());
      for (int64_t u = 0; u < n; ++u) {
        if (kAhead > 0 && u + kAhead < n) {
          const float* next = memory + int64_t{unique_rows[u + kAhead]} * 2 * kDim;
          SFCTR_PREFETCH_WRITE(next);
          SFCTR_PREFETCH_WRITE(next + kDim);
        }
        float gradient[kDim];
        std::fill_n(gradient, kDim, 1e-3f);
        float* row = memory + int64_t{unique_rows[u]} * 2 * kDim;
        UpdateRow(optimizer, scalars, kDim, gradient, row, row + kDim);
      }
      num_updates += n;
    }
  }
  state.SetItemsProcessed(num_updates);
}

// combine.cc's Gather: one cache line a row, read by position.
template <int64_t kAhead>
void BM_GatherAhead(benchmark::State& state) {
  const Rows& rows = BigRows(kBigRows);
  std::vector<float> outputs(kIdsPerStep * kDim);
  for (auto _ : state) {
    for (int64_t step = 0; step < kSteps; ++step) {
      const std::vector<int32_t>& inverse = rows.inverses[step];
      const std::vector<uint32_t>& unique_rows = rows.unique_rows[step];
      const auto row = [&](int64_t i) { return rows.memory.data() + int64_t{unique_rows[inverse[i]]} * 2 * kDim; };
      for (int64_t i = 0; i < kIdsPerStep; ++i) {
        if (kAhead > 0 && i + kAhead < kIdsPerStep) SFCTR_PREFETCH_READ(row(i + kAhead));
        memcpy(outputs.data() + i * kDim, row(i), kDim * sizeof(float));
      }
      benchmark::DoNotOptimize(outputs.data());
    }
  }
  state.SetItemsProcessed(state.iterations() * kSteps * kIdsPerStep);
}

#define AHEAD(n)                                                        \
  BENCHMARK_TEMPLATE(BM_UpdateAhead, n)->Unit(benchmark::kMillisecond); \
  BENCHMARK_TEMPLATE(BM_GatherAhead, n)->Unit(benchmark::kMillisecond)
AHEAD(0);
AHEAD(2);
AHEAD(4);
AHEAD(8);
AHEAD(16);
AHEAD(32);

}  // namespace
}  // namespace sfctr
