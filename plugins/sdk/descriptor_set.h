// A set of file descriptors that the child of a fork can read. Only the forking
// thread exists in the child, and it may make system calls only, since other
// threads of the parent may have held any lock.
//
//   constinit dw_sdk::DescriptorSet open_ones;  // nothing is made at first use
#ifndef DISTWRAP_PLUGINS_SDK_DESCRIPTOR_SET_H_
#define DISTWRAP_PLUGINS_SDK_DESCRIPTOR_SET_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace dw_sdk {

class DescriptorSet {
 public:
  // The set ignores larger numbers.
  static constexpr int kMost = 1 << 16;

  void add(int descriptor) {
    if (is_noted(descriptor)) word_of(descriptor).fetch_or(bit_of(descriptor));
  }
  void remove(int descriptor) {
    if (is_noted(descriptor))
      word_of(descriptor).fetch_and(~bit_of(descriptor));
  }

  bool empty() const {
    return std::all_of(words_.begin(), words_.end(), [](const auto& word) {
      return word.load(std::memory_order_relaxed) == 0;
    });
  }
  // Removes all numbers and calls `body` with each, in ascending order.
  template <class Body>
  void take_all(const Body& body) {
    for (size_t i = 0; i < words_.size(); ++i)
      for (uint64_t bits = words_[i].exchange(0, std::memory_order_relaxed);
           bits != 0; bits &= bits - 1)
        body(static_cast<int>(i * kBits) + std::countr_zero(bits));
  }

 private:
  static constexpr size_t kBits = 64;

  static bool is_noted(int descriptor) {
    return descriptor >= 0 && descriptor < kMost;
  }
  static uint64_t bit_of(int descriptor) {
    return uint64_t{1} << (static_cast<size_t>(descriptor) % kBits);
  }
  std::atomic<uint64_t>& word_of(int descriptor) {
    return words_[static_cast<size_t>(descriptor) / kBits];
  }

  std::array<std::atomic<uint64_t>, kMost / kBits> words_{};
};

}  // namespace dw_sdk

#endif  // DISTWRAP_PLUGINS_SDK_DESCRIPTOR_SET_H_
