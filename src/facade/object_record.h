// What ranks tell each other before they exchange objects, and what each of
// them concludes from it: the same on all.
//
// A record is of fixed size. Behind its numbers is room, for the message itself
// when it is short, else for nothing, and for the text of an error.
// Threads: values. Ownership: a record read borrows its bytes.
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

// Bytes of a record in a group of this size: all of them together stay small.
size_t record_size(int ranks);

struct ObjectRecord {
  ObjectCall call = ObjectCall::kAllGather;
  Reason reason = Reason::kNone;  // why the rank cannot take part
  int root = 0;
  uint64_t count = 0;    // equal on all ranks: entries of a list
  uint64_t largest = 0;  // bytes that are held against `limit`
  uint64_t total = 0;    // bytes of the message
  uint64_t limit = 0;    // that the rank takes
  // The message when it has room, or the text of the error.
  absl::string_view content = {};

  bool inlined(size_t size) const { return total <= size - kRecordHead; }
};

// Exactly `size` bytes. A text that has no room is cut off.
std::string write_record(const ObjectRecord& record, size_t size);
// Nothing when the bytes are no record.
std::optional<ObjectRecord> read_record(absl::string_view bytes);

// Whether the ranks go on: an error that names those to blame. `ranks[i]` is
// the rank of `records[i]`, nothing for a record that could not be read.
// `what` and the like are filled in, who and where are the caller's to add.
std::optional<ErrorInfo> judge(
    absl::Span<const std::optional<ObjectRecord>> records,
    absl::Span<const int> ranks);

}  // namespace distwrap::facade

#endif  // DISTWRAP_SRC_FACADE_OBJECT_RECORD_H_
