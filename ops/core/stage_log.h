// SPDX-License-Identifier: Apache-2.0
// When each stage of the pipeline worked on which batch: sums since the start, and the last few thousand intervals.
//
// Thread-safety: all functions may be called by any thread at any time.
#ifndef TF_SFCTR_OPS_CORE_STAGE_LOG_H_
#define TF_SFCTR_OPS_CORE_STAGE_LOG_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <vector>

namespace sfctr {

// The names are those of STAGES in tf_sfctr/cache.py.
enum class Stage : int32_t {
  kDedup,      // distinct ids of a batch
  kPlan,       // hits, misses and victims in the directory
  kWriteBack,  // changed rows of victims to the host
  kFetch,      // missing rows to the device
  kWait,       // a step waits for its rows
  kTrain,      // from a step's lookup to the end of its update
};
constexpr int kNumStages = 6;

using Clock = std::chrono::steady_clock;

struct Interval {
  Stage stage;
  int64_t batch;
  Clock::time_point begin;
  Clock::time_point end;
};

class StageLog {
 public:
  void Add(Stage stage, int64_t batch, Clock::time_point begin, Clock::time_point end) {
    std::lock_guard<std::mutex> lock(mutex_);
    seconds_[static_cast<size_t>(stage)] += std::chrono::duration<double>(end - begin).count();
    if (intervals_.size() < kCapacity) {
      intervals_.push_back({stage, batch, begin, end});
    } else {
      intervals_[next_++ % kCapacity] = {stage, batch, begin, end};
    }
  }

  std::array<double, kNumStages> seconds() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return seconds_;
  }

  // In no particular order.
  std::vector<Interval> intervals() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return intervals_;
  }

 private:
  static constexpr size_t kCapacity = 4096;

  mutable std::mutex mutex_;
  std::array<double, kNumStages> seconds_{};
  std::vector<Interval> intervals_;
  size_t next_ = 0;
};

}  // namespace sfctr

#endif  // TF_SFCTR_OPS_CORE_STAGE_LOG_H_
