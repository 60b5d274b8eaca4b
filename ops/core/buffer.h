// SPDX-License-Identifier: Apache-2.0
// An array whose elements start with no particular value: for results that are about to be written in full. Zeroing
// them first, as std::vector does, costs as much as writing them.
#ifndef TF_SFCTR_OPS_CORE_BUFFER_H_
#define TF_SFCTR_OPS_CORE_BUFFER_H_

#include <cstdint>
#include <memory>
#include <type_traits>

namespace sfctr {

template <typename T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_default_constructible_v<T>);

 public:
  Buffer() = default;
  explicit Buffer(int64_t size) : elements_(new T[size]), size_(size) {}

  int64_t size() const { return size_; }
  T* data() { return elements_.get(); }
  const T* data() const { return elements_.get(); }
  T& operator[](int64_t i) { return elements_[i]; }
  const T& operator[](int64_t i) const { return elements_[i]; }

 private:
  std::unique_ptr<T[]> elements_;
  int64_t size_ = 0;
};

}  // namespace sfctr

#endif  // TF_SFCTR_OPS_CORE_BUFFER_H_
