// The place of each rank's part of a buffer, for all forms: one piece, counts
// for each rank with or without displacements, or a list of addresses.
#ifndef DISTWRAP_SRC_ALGO_COMPOSE_PARTS_H_
#define DISTWRAP_SRC_ALGO_COMPOSE_PARTS_H_

#include "distwrap/abi/types.h"

#include <cstdint>
#include <vector>

namespace distwrap::algo::compose {

class Parts {
 public:
  // Sets the parts of `size` ranks; an element has `element` bytes. Borrows the
  // buffer.
  void set(const dw_buf& buf, int size, uint64_t element) {
    buf_ = &buf;
    element_ = element;
    equal_ = static_cast<uint64_t>(buf.count) / static_cast<uint64_t>(size) *
             element;
    if (buf.counts == nullptr || buf.displs != nullptr || buf.parts != nullptr)
      return;
    offsets_.resize(static_cast<size_t>(size));
    uint64_t at = 0;
    for (int r = 0; r < size; ++r) {
      offsets_[static_cast<size_t>(r)] = at;
      at += bytes(r);
    }
  }

  uint64_t bytes(int rank) const {
    return buf_->counts == nullptr
               ? equal_
               : static_cast<uint64_t>(buf_->counts[rank]) * element_;
  }
  uint64_t count(int rank) const { return bytes(rank) / element_; }
  char* at(int rank) const {
    if (buf_->parts != nullptr) return static_cast<char*>(buf_->parts[rank]);
    auto* const data = static_cast<char*>(buf_->data);
    if (buf_->counts == nullptr)
      return data + static_cast<uint64_t>(rank) * equal_;
    if (buf_->displs != nullptr)
      return data + static_cast<uint64_t>(buf_->displs[rank]) * element_;
    return data + offsets_[static_cast<size_t>(rank)];
  }
  uint64_t all_bytes() const {
    return static_cast<uint64_t>(buf_->count) * element_;
  }
  bool packed() const {
    return buf_->parts == nullptr &&
           (buf_->counts == nullptr || buf_->displs == nullptr);
  }

 private:
  const dw_buf* buf_ = nullptr;
  uint64_t element_ = 1;
  uint64_t equal_ = 0;
  std::vector<uint64_t> offsets_;
};

}  // namespace distwrap::algo::compose

#endif  // DISTWRAP_SRC_ALGO_COMPOSE_PARTS_H_
