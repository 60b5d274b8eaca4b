// SPDX-License-Identifier: Apache-2.0
// A slow link between host and device, for machines where both are the same memory: a transfer takes at least a fixed
// latency and its bytes over a fixed bandwidth. Emulation, off by default, so that what a pipeline hides can be seen.
#ifndef TF_SFCTR_OPS_CORE_EMULATED_LINK_H_
#define TF_SFCTR_OPS_CORE_EMULATED_LINK_H_

#include <chrono>
#include <cstdint>
#include <thread>

namespace sfctr {

struct EmulatedLink {
  double bytes_per_s = 0.0;  // 0: off
  double latency_s = 0.0;

  // Returns when a transfer of `bytes` that began at `begin` would have ended.
  void Charge(std::chrono::steady_clock::time_point begin, int64_t bytes) const {
    if (bytes_per_s <= 0.0 || bytes == 0) return;
    const std::chrono::duration<double> time(latency_s + static_cast<double>(bytes) / bytes_per_s);
    std::this_thread::sleep_until(begin + std::chrono::duration_cast<std::chrono::nanoseconds>(time));
  }
};

}  // namespace sfctr

#endif  // TF_SFCTR_OPS_CORE_EMULATED_LINK_H_
