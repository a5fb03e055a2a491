// Test data that is exact in every dtype, and memory that notices strangers.
#ifndef DISTWRAP_TESTS_CONFORMANCE_DATA_H_
#define DISTWRAP_TESTS_CONFORMANCE_DATA_H_

#include "distwrap/abi/types.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace distwrap::conformance {

// A small number that depends on rank and position: sums of up to eight ranks
// are exact in every dtype. Not negative where the dtype cannot be.
int value_at(int dtype_index, int rank, size_t position);

// A number in the storage of a dtype, appended.
void append_number(int dtype_index, int number, std::string& bytes);

// Elements [begin, begin + count) of a rank's input.
std::string values(int dtype_index, int rank, size_t begin, size_t count);

// The slow reference: elements reduced over `ranks` ranks.
std::string reduced(int dtype_index, uint16_t reduce, int ranks, size_t begin,
                    size_t count);

// Bytes with guards before and behind, at an address that only an element's
// alignment is promised for.
class GuardedBytes {
 public:
  explicit GuardedBytes(size_t size);

  char* data() { return memory_.data() + kGuard; }
  const char* data() const { return memory_.data() + kGuard; }
  size_t size() const { return size_; }
  void put(size_t offset, const std::string& bytes);
  std::string get(size_t offset, size_t size) const;
  bool guards_intact() const;

 private:
  static constexpr size_t kGuard = 64;
  static constexpr char kGuardByte = '\x5a';
  static constexpr char kSentinel = '\xa5';

  const size_t size_;
  std::vector<char> memory_;
};

}  // namespace distwrap::conformance

#endif  // DISTWRAP_TESTS_CONFORMANCE_DATA_H_
