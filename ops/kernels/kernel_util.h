// SPDX-License-Identifier: Apache-2.0
// What every kernel needs to call the core: TensorFlow's threads as an Executor, and the core's Status as TensorFlow's.
#ifndef TF_SFCTR_OPS_KERNELS_KERNEL_UTIL_H_
#define TF_SFCTR_OPS_KERNELS_KERNEL_UTIL_H_

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ops/core/parallel.h"
#include "ops/core/status.h"
#include "tensorflow/core/framework/device_base.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/threadpool.h"

namespace sfctr {

// Lends the threads of the device's intra-op pool to the core. The calling thread works too and never waits for a task
// that no thread has begun, so progress does not depend on free threads in the pool.
class PoolExecutor final : public Executor {
 public:
  explicit PoolExecutor(tensorflow::OpKernelContext* ctx)
      : pool_(ctx->device()->tensorflow_cpu_worker_threads()->workers),
        num_threads_(std::max(1, ctx->device()->tensorflow_cpu_worker_threads()->num_threads)) {}

  int num_threads() const override { return num_threads_; }

  void Run(int num_tasks, const std::function<void(int)>& task) override {
    if (num_tasks <= 1 || num_threads_ <= 1) {
      for (int i = 0; i < num_tasks; ++i) task(i);
      return;
    }
    auto state = std::make_shared<State>(num_tasks, &task);
    const int helpers = std::min(num_threads_, num_tasks) - 1;
    for (int h = 0; h < helpers; ++h) pool_->Schedule([state] { Work(state.get()); });
    Work(state.get());
    // Every task is taken; those that helpers took are running and will end.
    std::unique_lock<std::mutex> lock(state->mutex);
    state->all_done.wait(lock, [&] { return state->num_done.load() == num_tasks; });
  }

 private:
  struct State {
    State(int num_tasks, const std::function<void(int)>* task) : num_tasks(num_tasks), task(task) {}
    const int num_tasks;
    const std::function<void(int)>* task;  // valid while a task is not done
    std::atomic<int> next{0};
    std::atomic<int> num_done{0};
    std::mutex mutex;
    std::condition_variable all_done;
  };

  static void Work(State* state) {
    for (int i = state->next++; i < state->num_tasks; i = state->next++) {
      (*state->task)(i);
      if (++state->num_done == state->num_tasks) {
        std::lock_guard<std::mutex> lock(state->mutex);
        state->all_done.notify_all();
      }
    }
  }

  tensorflow::thread::ThreadPool* const pool_;
  const int num_threads_;
};

// `where` names the caller, as in "CachedEmbedding 'user_id'".
inline absl::Status ToTfStatus(absl::string_view where, const Status& status) {
  if (status.ok()) return absl::OkStatus();
  const std::string message = absl::StrCat(where, ": ", status.message());
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
      return absl::InvalidArgumentError(message);
    case StatusCode::kFailedPrecondition:
      return absl::FailedPreconditionError(message);
    case StatusCode::kResourceExhausted:
      return absl::ResourceExhaustedError(message);
    case StatusCode::kDataLoss:
      return absl::DataLossError(message);
    default:
      return absl::InternalError(message);
  }
}

}  // namespace sfctr

#endif  // TF_SFCTR_OPS_KERNELS_KERNEL_UTIL_H_
