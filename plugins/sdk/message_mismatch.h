// The error of a receive whose message has another element type or count.
//
// A receive takes the oldest message of its group, source and tag. Sizes and
// types do not take part in the match: where they differ, both ranks' calls
// fail, and nothing is written to the receiver's buffer.
#ifndef DISTWRAP_PLUGINS_SDK_MESSAGE_MISMATCH_H_
#define DISTWRAP_PLUGINS_SDK_MESSAGE_MISMATCH_H_

#include "sdk/dtype.h"
#include "sdk/fail.h"

#include <cstdint>
#include <cstdio>

namespace dw_sdk {

// The send or the receive, as its rank called it.
struct MessageEnd {
  int rank = -1;
  int type = -1;  // DW_DTYPE_<NAME>
  uint64_t bytes = 0;
};

namespace internal {

inline const char* type_text(int type) {
  switch (type) {
#define DW_DTYPE(index, name, enumerator, text, code, bits, storage) \
  case index:                                                        \
    return #text;
#include "distwrap/abi/dtypes.def"
    default:
      return "?";
  }
}

inline uint64_t elements(const MessageEnd& end) {
  const uint64_t element = dw_dtype_bytes(dw_dtype_of(end.type));
  return element == 0 ? end.bytes : end.bytes / element;
}

}  // namespace internal

// Two lines, which the host shows as what was expected and what came: the
// receiver's call, then the sender's. `tag` is DW_TAG(class, number).
inline int32_t fail_message_mismatch(const MessageEnd& receiver,
                                     const MessageEnd& sender, uint64_t tag,
                                     dw_error* error) {
  const auto number = static_cast<unsigned>(tag & UINT32_MAX);
  const char* const kind =
      (tag >> 32) == DW_TAG_CLASS_USER ? "" : " (internal)";
  char text[sizeof error->text];
  std::snprintf(text, sizeof text,
                "recv %s x %llu from rank %d, tag %u%s (rank %d)\n"
                "send %s x %llu to rank %d, tag %u%s (rank %d)",
                internal::type_text(receiver.type),
                static_cast<unsigned long long>(internal::elements(receiver)),
                sender.rank, number, kind, receiver.rank,
                internal::type_text(sender.type),
                static_cast<unsigned long long>(internal::elements(sender)),
                receiver.rank, number, kind, sender.rank);
  return dw_fail(error, DW_FAILED_PRECONDITION, DW_REASON_CALL_MISMATCH,
                 sender.rank, 0, text);
}

}  // namespace dw_sdk

#endif  // DISTWRAP_PLUGINS_SDK_MESSAGE_MISMATCH_H_
