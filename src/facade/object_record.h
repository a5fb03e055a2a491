// The records that ranks exchange before objects, and the conclusion that each
// rank draws from them, equal on all ranks.
//
// A record has a fixed size: its numbers, then room for a short message or for
// the text of an error.
// Threads: values. Ownership: a decoded record borrows its bytes.
#ifndef DISTWRAP_SRC_FACADE_OBJECT_RECORD_H_
#define DISTWRAP_SRC_FACADE_OBJECT_RECORD_H_

#include "distwrap/status.h"

#include <absl/status/status.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace distwrap::facade {

enum class ObjectCall : uint8_t {
  kAllGather = 1,
  kGather,
  kBroadcast,
  kScatter,
  kMessage,
};

inline constexpr size_t kRecordHead = 48;
inline constexpr size_t kLeastRecord = 256;
inline constexpr size_t kMostRecord = 2048;

// The size of a record for a group of this size, so that all records together
// stay small.
size_t record_size(int ranks);

struct ObjectRecord {
  ObjectCall call = ObjectCall::kAllGather;
  Reason reason = Reason::kNone;  // the error that keeps the rank from taking
                                  // part
  int root = 0;
  uint64_t count = 0;    // entries of a list; equal on all ranks
  uint64_t largest = 0;  // bytes that are compared with `limit`
  uint64_t total = 0;    // bytes of the message
  uint64_t limit = 0;    // the most bytes that the rank accepts
  // The message if it fits, or the text of the error.
  absl::string_view content = {};

  bool inlined(size_t size) const { return total <= size - kRecordHead; }
};

// Writes exactly `size` bytes; a text that does not fit is cut.
std::string write_record(const ObjectRecord& record, size_t size);
// Nullopt when the bytes are no record.
std::optional<ObjectRecord> read_record(absl::string_view bytes);

// Nullopt when the ranks may go on, else an error that names the ranks to
// blame. `ranks[i]` is the rank of `records[i]`, which is nullopt when it could
// not be read. The caller adds the call, the group and the rank to the error.
std::optional<ErrorInfo> judge(
    absl::Span<const std::optional<ObjectRecord>> records,
    absl::Span<const int> ranks);

}  // namespace distwrap::facade

#endif  // DISTWRAP_SRC_FACADE_OBJECT_RECORD_H_
