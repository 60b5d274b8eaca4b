// SPDX-License-Identifier: Apache-2.0
// What every kernel needs to call the core: TensorFlow's threads as an Executor, and the core's Status as TensorFlow's.
#ifndef TF_SFCTR_OPS_KERNELS_KERNEL_UTIL_H_
#define TF_SFCTR_OPS_KERNELS_KERNEL_UTIL_H_

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <atomic>
#include <chrono>
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

// Lends the threads of the device's intra-op pool to the core, for the time of one Compute().
//
// The calling thread works too and never waits for a task that no thread has begun, so progress does not depend on free
// threads in the pool. A helper that has nothing left to do looks out for the next Run() for a while before it goes
// back to the pool: waking a sleeping thread takes as long as a whole part of the work here.
class PoolExecutor final : public Executor {
 public:
  explicit PoolExecutor(tensorflow::OpKernelContext* ctx)
      : pool_(ctx->device()->tensorflow_cpu_worker_threads()->workers),
        num_threads_(std::max(1, ctx->device()->tensorflow_cpu_worker_threads()->num_threads)),
        crew_(std::make_shared<Crew>()) {}
  ~PoolExecutor() override { crew_->closed = true; }

  int num_threads() const override { return num_threads_; }

  void Run(int num_tasks, const std::function<void(int)>& task) override {
    if (num_tasks <= 1 || num_threads_ <= 1) {
      for (int i = 0; i < num_tasks; ++i) task(i);
      return;
    }
    auto job = std::make_shared<Job>(num_tasks, &task);
    {
      std::lock_guard<std::mutex> lock(crew_->mutex);
      crew_->job = job;
      ++crew_->number;
    }
    const int wanted = std::min(num_threads_, num_tasks) - 1;
    for (int helpers = crew_->num_helpers; helpers < wanted; ++helpers) {
      ++crew_->num_helpers;
      pool_->Schedule([crew = crew_] { Help(crew.get()); });
    }
    job->Work();
    job->WaitForHelpers();
  }

 private:
  // A few microseconds: longer, and the waiting thread may keep the helper that it waits for off the processor.
  static constexpr int kSpinsBeforeSleep = 1 << 11;
  // Longer than the pauses between the runs of one op, shorter than anything a user would notice.
  static constexpr std::chrono::microseconds kLookOut{200};

  struct Job {
    Job(int num_tasks, const std::function<void(int)>* task) : num_tasks(num_tasks), task(task) {}
    void Work() {
      for (int i = next++; i < num_tasks; i = next++) {
        (*task)(i);
        if (num_done.fetch_add(1, std::memory_order_acq_rel) + 1 == num_tasks) {
          std::lock_guard<std::mutex> lock(mutex);
          all_done.notify_all();
        }
      }
    }
    // Every task is taken; those that helpers took are running and will end.
    void WaitForHelpers() {
      const auto done = [this] { return num_done.load(std::memory_order_acquire) == num_tasks; };
      for (int spins = 0; spins < kSpinsBeforeSleep; ++spins) {
        if (done()) return;
        Pause();
      }
      std::unique_lock<std::mutex> lock(mutex);
      all_done.wait(lock, done);
    }
    const int num_tasks;
    const std::function<void(int)>* task;  // valid while a task is not done
    std::atomic<int> next{0};
    std::atomic<int> num_done{0};
    std::mutex mutex;
    std::condition_variable all_done;
  };

  // Shared with the helpers, which may outlive the executor by kLookOut.
  struct Crew {
    std::mutex mutex;
    std::shared_ptr<Job> job;    // guarded by mutex
    std::atomic<int> number{0};  // of jobs so far
    std::atomic<int> num_helpers{0};
    std::atomic<bool> closed{false};
  };

  // Leaves the core to its other thread for a moment.
  static void Pause() {
#ifdef __SSE2__
    _mm_pause();
#endif
  }

  static void Help(Crew* crew) {
    int seen = 0;
    auto until = std::chrono::steady_clock::now() + kLookOut;
    for (int spins = 1; !crew->closed; ++spins) {
      if (crew->number.load(std::memory_order_acquire) != seen) {
        std::shared_ptr<Job> job;
        {
          std::lock_guard<std::mutex> lock(crew->mutex);
          job = crew->job;
          seen = crew->number;
        }
        job->Work();
        until = std::chrono::steady_clock::now() + kLookOut;
      } else if (spins % 64 == 0 && std::chrono::steady_clock::now() > until) {
        break;
      } else {
        Pause();
      }
    }
    --crew->num_helpers;
  }

  tensorflow::thread::ThreadPool* const pool_;
  const int num_threads_;
  const std::shared_ptr<Crew> crew_;
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
