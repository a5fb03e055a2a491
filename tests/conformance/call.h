// Buffers and op of one rank's call, and the expected result.
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
  // Accepts any kind; an operation that is no collective gets plain buffers.
  Call(const Case& c, const Member& member);

  // The operation, without `seq`.
  dw_op op() const;
  // The mistakes after a call that succeeded; "" when all is right. Called
  // once.
  std::string wrong_result();
  // The mistakes after a call that was refused: nothing may have changed.
  std::string wrong_refusal() const;

 private:
  // The elements of each piece; empty where this rank has no such buffer.
  std::vector<size_t> counts(Extent extent, bool input) const;
  void make_buffers(const Shape& shape);
  void put_inputs();
  void want_outputs();
  dw_buf view(const Buffer* buffer) const;
  size_t phase(size_t piece) const;
  std::string wrong(int nan_dtype) const;

  const Case case_;
  const int rank_, size_;
  const bool own_floats_;  // DW_BACKEND_OWN_FLOATS
  bool in_place_ = false;
  std::unique_ptr<Buffer> in_, out_;
  // The memory to which the unused pointer of a rank sometimes points.
  std::unique_ptr<Buffer> absent_;
  std::string factor_;
};

// Makes the call in the case's way, waits for an asynchronous one, and checks
// it. All ranks of the member's team call it.
void make_call(Member& member, const Case& c);

}  // namespace distwrap::conformance

#endif  // DISTWRAP_TESTS_CONFORMANCE_CALL_H_
