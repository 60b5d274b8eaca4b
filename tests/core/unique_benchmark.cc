// SPDX-License-Identifier: Apache-2.0
// Dedup of a batch. From kMinParallel ids on (unique.cc) it works in partitions: the sizes around it with one and two
// threads show where that pays, the executor of 1 thread what partitions cost by themselves.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ops/core/unique.h"
#include "tests/core/test_util.h"

namespace sfctr {
namespace {

constexpr int64_t kVocabulary = 10 << 20;

// Arguments: ids, threads, skew in hundredths (0: evenly spread).
void BM_Unique(benchmark::State& state) {
  const int64_t n = state.range(0);
  const std::vector<int64_t> ids = PowerLawIds(n, kVocabulary, static_cast<double>(state.range(2)) / 100.0, 1);
  ThreadExecutor executor(static_cast<int>(state.range(1)));
  std::vector<int64_t> unique_ids(n);
  std::vector<int32_t> inverse(n);
  int64_t num_unique = 0;
  for (auto _ : state) {
    num_unique = Unique(ids.data(), n, std::nullopt, unique_ids.data(), inverse.data(), &executor);
    benchmark::DoNotOptimize(inverse.data());
  }
  state.counters["unique"] = static_cast<double>(num_unique) / static_cast<double>(n);
  state.SetItemsProcessed(state.iterations() * n);
}
BENCHMARK(BM_Unique)
    ->ArgNames({"ids", "threads", "skew"})
    ->ArgsProduct({{1 << 12, 1 << 13, (1 << 14) - 1, 1 << 14, 1 << 15, 1 << 16, 106496, 1 << 20}, {1, 2}, {0, 105}})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

// The baseline: what a first version would use.
void BM_UnorderedMap(benchmark::State& state) {
  const int64_t n = state.range(0);
  const std::vector<int64_t> ids = PowerLawIds(n, kVocabulary, 1.05, 1);
  std::vector<int64_t> unique_ids(n);
  std::vector<int32_t> inverse(n);
  for (auto _ : state) {
    std::unordered_map<int64_t, int32_t> numbers;
    numbers.reserve(n);
    for (int64_t i = 0; i < n; ++i) {
      const auto [it, is_new] = numbers.emplace(ids[i], static_cast<int32_t>(numbers.size()));
      if (is_new) unique_ids[it->second] = ids[i];
      inverse[i] = it->second;
    }
    benchmark::DoNotOptimize(inverse.data());
  }
  state.SetItemsProcessed(state.iterations() * n);
}
BENCHMARK(BM_UnorderedMap)->ArgName("ids")->Arg(1 << 14)->Arg(106496)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace sfctr
