// Buffers and op of one rank's call, and what must come out of it.
#ifndef DISTWRAP_TESTS_CONFORMANCE_CALL_H_
#define DISTWRAP_TESTS_CONFORMANCE_CALL_H_

#include "buffer.h"
#include "case.h"
#include "team.h"

#include <memory>
#include <string>

namespace distwrap::conformance {

class Call {
 public:
  // Any kind; one that is no collective gets plain buffers.
  Call(const Case& c, int rank, int size);

  // Without `seq`.
  dw_op op() const;
  // What is wrong after a call that worked; "" when all is right. Once.
  std::string wrong_result();
  // Likewise after one that was refused: nothing may have changed.
  std::string wrong_refusal() const;

 private:
  // Elements of each piece; none where this rank has no such buffer.
  std::vector<size_t> counts(Extent extent, bool input) const;
  void make_buffers(const Shape& shape);
  void put_inputs();
  void want_outputs();
  dw_buf view(const Buffer* buffer) const;
  size_t phase(size_t piece) const;
  std::string wrong(int nan_dtype) const;

  const Case case_;
  const int rank_, size_;
  bool in_place_ = false;
  std::unique_ptr<Buffer> in_, out_;
  // Where a rank without a buffer points to, now and then.
  std::unique_ptr<Buffer> absent_;
  std::string factor_;
};

// Makes the call in the case's way and checks it, waiting for its completion
// when it is asynchronous. All ranks of the member's team make it.
void make_call(Member& member, const Case& c);

}  // namespace distwrap::conformance

#endif  // DISTWRAP_TESTS_CONFORMANCE_CALL_H_
