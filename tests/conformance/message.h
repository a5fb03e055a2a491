// A message of this rank, sent or received.
#ifndef DISTWRAP_TESTS_CONFORMANCE_MESSAGE_H_
#define DISTWRAP_TESTS_CONFORMANCE_MESSAGE_H_

#include "data.h"
#include "operation.h"
#include "team.h"

#include <string>

namespace distwrap::conformance {

struct MessageSpec {
  int from = 0, to = 0;
  uint64_t tag = 0;
  int dtype = 0;
  size_t count = 0;
  size_t order = 0;  // number among messages that are equal in all fields above
};

// Must not move. A failure becomes a finding of the member.
class Message {
 public:
  Message(Member& member, bool sends, const MessageSpec& spec,
          bool caller_waits, dw_comm* comm = nullptr);
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  void begin();
  void end();
  Operation& operation() { return operation_; }

 private:
  void note(const std::string& wrong);
  dw_op op(bool caller_waits);

  Member& member_;
  const bool sends_;
  const MessageSpec spec_;
  GuardedBytes memory_;
  Operation operation_;
  bool good_ = true;
};

}  // namespace distwrap::conformance

#endif  // DISTWRAP_TESTS_CONFORMANCE_MESSAGE_H_
