// SPDX-License-Identifier: Apache-2.0
// How the core runs on several threads without owning any: the caller lends an Executor.
//
// Every parallel algorithm of the core gives the same result for any number of threads.
#ifndef TF_SFCTR_OPS_CORE_PARALLEL_H_
#define TF_SFCTR_OPS_CORE_PARALLEL_H_

#include <algorithm>
#include <cstdint>
#include <functional>

namespace sfctr {

class Executor {
 public:
  virtual ~Executor() = default;
  // Threads that Run may use at once, the caller's included; at least 1.
  virtual int num_threads() const = 0;
  // Calls task(0) ... task(num_tasks - 1), each once, and returns when all have ended. Tasks do not throw.
  virtual void Run(int num_tasks, const std::function<void(int)>& task) = 0;
};

// Runs everything in the caller's thread.
class InlineExecutor final : public Executor {
 public:
  int num_threads() const override { return 1; }
  void Run(int num_tasks, const std::function<void(int)>& task) override {
    for (int i = 0; i < num_tasks; ++i) task(i);
  }
};

// Runs on std::threads started for each call: for tests and tools that have no pool.
class ThreadExecutor final : public Executor {
 public:
  explicit ThreadExecutor(int num_threads) : num_threads_(std::max(1, num_threads)) {}
  int num_threads() const override { return num_threads_; }
  void Run(int num_tasks, const std::function<void(int)>& task) override;

 private:
  int num_threads_;
};

// Number of equal parts worth making of `n` items when a part should have at least `min_items`.
inline int NumParts(const Executor& executor, int64_t n, int64_t min_items) {
  const int64_t parts = std::min<int64_t>(executor.num_threads(), n / std::max<int64_t>(1, min_items));
  return static_cast<int>(std::max<int64_t>(1, parts));
}

// Begin of part `part` when [0, n) is cut into `num_parts` almost equal ranges; part == num_parts gives n.
inline int64_t PartBegin(int64_t n, int part, int num_parts) { return n * part / num_parts; }

// Calls body(begin, end) on a partition of [0, n) into ranges of at least `min_items` items.
template <typename Body>
void ParallelFor(Executor* executor, int64_t n, int64_t min_items, const Body& body) {
  if (n <= 0) return;
  const int parts = NumParts(*executor, n, min_items);
  if (parts == 1) {
    body(int64_t{0}, n);
    return;
  }
  executor->Run(parts, [&](int part) { body(PartBegin(n, part, parts), PartBegin(n, part + 1, parts)); });
}

}  // namespace sfctr

#endif  // TF_SFCTR_OPS_CORE_PARALLEL_H_
