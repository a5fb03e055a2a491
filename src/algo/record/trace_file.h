// The file of the record decorator (record.h).
//
// Threads: any.
#ifndef DISTWRAP_SRC_ALGO_RECORD_TRACE_FILE_H_
#define DISTWRAP_SRC_ALGO_RECORD_TRACE_FILE_H_

#include "base/mutex.h"
#include "distwrap/abi/types.h"

#include <absl/strings/string_view.h>

#include <cstdint>
#include <memory>
#include <string>

namespace distwrap::algo::record {

class TraceFile {
 public:
  // Creates or truncates the file, readable by this user only; null with errno.
  static std::unique_ptr<TraceFile> open(const std::string& path);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  // Adds a communicator and returns its number, 1 for the first.
  uint64_t add_group(uint64_t uid, int rank, int size);
  // `set` is 0 for an operation that was submitted alone. A line for which
  // there is no memory is left out.
  void add(uint64_t comm, const dw_op& op, uint64_t set, int32_t answer);
  uint64_t next_set();

 private:
  explicit TraceFile(int fd) : fd_(fd) {}
  void write_line(absl::string_view line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int fd_;
  base::Mutex mutex_;
  uint64_t comms_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t sets_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace distwrap::algo::record

#endif  // DISTWRAP_SRC_ALGO_RECORD_TRACE_FILE_H_
