// SPDX-License-Identifier: Apache-2.0
#include "ops/core/parallel.h"

#include <atomic>
#include <thread>
#include <vector>

namespace sfctr {

void ThreadExecutor::Run(int num_tasks, const std::function<void(int)>& task) {
  std::atomic<int> next{0};
  const auto work = [&] {
    for (int i = next++; i < num_tasks; i = next++) task(i);
  };
  std::vector<std::thread> threads;
  for (int t = 1; t < std::min(num_threads_, num_tasks); ++t) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace sfctr
