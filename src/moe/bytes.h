// Staging memory, and the sizes of the parts in it.
#ifndef DISTWRAP_SRC_MOE_BYTES_H_
#define DISTWRAP_SRC_MOE_BYTES_H_

#include <cstdint>
#include <memory>
#include <vector>

namespace distwrap::moe {

// Bytes without a value; growing loses the contents.
class Bytes {
 public:
  uint8_t* grow(int64_t size) {
    if (size > size_) {
      data_.reset();
      size_ = 0;
      data_.reset(new uint8_t[static_cast<size_t>(size)]);
      size_ = size;
    }
    return data_.get();
  }
  uint8_t* data() const { return data_.get(); }
  int64_t size() const { return size_; }

 private:
  std::unique_ptr<uint8_t[]> data_;
  int64_t size_ = 0;
};

// The counts and displacements of one exchange, in bytes by rank.
struct PartSizes {
  std::vector<int64_t> counts, displs;

  // Parts of `first` (R+1) rows, `bytes` each, packed.
  void from_rows(const std::vector<int64_t>& first, int64_t bytes) {
    counts.resize(first.size() - 1);
    displs.resize(first.size() - 1);
    for (size_t r = 0; r + 1 < first.size(); ++r) {
      counts[r] = (first[r + 1] - first[r]) * bytes;
      displs[r] = first[r] * bytes;
    }
  }
};

}  // namespace distwrap::moe

#endif  // DISTWRAP_SRC_MOE_BYTES_H_
