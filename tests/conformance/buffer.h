// One buffer of a call, in any form: its memory, its pieces, its dw_buf.
#ifndef DISTWRAP_TESTS_CONFORMANCE_BUFFER_H_
#define DISTWRAP_TESTS_CONFORMANCE_BUFFER_H_

#include "case.h"
#include "data.h"

#include <vector>

namespace distwrap::conformance {

// Must not move, because the dw_buf points into it.
class Buffer {
 public:
  // `counts`: elements of each piece. One piece and kPlain is a plain buffer.
  Buffer(int dtype, const std::vector<size_t>& counts, Form form, bool odd);
  // A buffer that is a piece of another one.
  Buffer(Buffer& other, size_t piece);
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  dw_buf view() const;
  size_t pieces() const { return pieces_.size(); }
  bool has_counts() const { return !counts_.empty(); }
  bool has_parts() const { return !parts_.empty(); }

  // `put` stores data that must not change; `want` sets the data expected
  // afterwards.
  void put(size_t piece, const std::string& period, size_t phase);
  void want(size_t piece, const std::string& period, size_t phase,
            const Ranges& allowed = nullptr);
  std::string wrong(const std::string& name, int nan_dtype) const;

 private:
  struct Piece {
    size_t block, offset, count;  // offset in bytes
  };

  char* address(const Piece& piece) const;

  const int dtype_;
  const size_t element_;
  Buffer* const within_ = nullptr;
  std::vector<std::unique_ptr<GuardedBytes>> blocks_;
  std::vector<Piece> pieces_;
  std::vector<int64_t> counts_, displs_;
  std::vector<void*> parts_;
  dw_buf view_ = {};
};

}  // namespace distwrap::conformance

#endif  // DISTWRAP_TESTS_CONFORMANCE_BUFFER_H_
