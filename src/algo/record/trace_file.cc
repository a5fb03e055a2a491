#include "algo/record/trace_file.h"

#include <absl/strings/str_cat.h>

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

namespace distwrap::algo::record {
namespace {

const char* op_text(uint16_t kind) {
  switch (kind) {
#define DW_OP(value, name, enumerator, text, peer, in, out, summary) \
  case value:                                                        \
    return #text;
#include "distwrap/abi/ops.def"
    default:
      return "?";
  }
}

const char* dtype_text(dw_dtype dtype) {
#define DW_DTYPE(index, name, enumerator, text, dl_code, dl_bits, storage) \
  if (dtype.code == (dl_code) && dtype.bits == (dl_bits)) return #text;
#include "distwrap/abi/dtypes.def"
  return "";
}

const char* reduce_text(uint16_t reduce) {
  switch (reduce) {
#define DW_REDUCTION(value, name, enumerator, text, takes, meaning) \
  case value:                                                       \
    return #text;
#include "distwrap/abi/reductions.def"
    default:
      return "?";
  }
}

bool is_message(uint16_t kind) {
  return kind == DW_OP_SEND || kind == DW_OP_RECV;
}

}  // namespace

std::unique_ptr<TraceFile> TraceFile::open(const std::string& path) {
  const int fd = ::open(
      path.c_str(),
      O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_APPEND, 0600);
  if (fd < 0) return nullptr;
  return std::unique_ptr<TraceFile>(new TraceFile(fd));
}

TraceFile::~TraceFile() { close(fd_); }

// Written at once, so that the last operations of a process that dies are in
// the file.
void TraceFile::write_line(absl::string_view line) {
  while (!line.empty()) {
    const ssize_t n = write(fd_, line.data(), line.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // a full disk ends no job
    line.remove_prefix(static_cast<size_t>(n));
  }
}

uint64_t TraceFile::add_group(uint64_t uid, int rank, int size) {
  base::MutexLock lock(mutex_);
  const uint64_t comm = ++comms_;
  try {
    write_line(absl::StrCat("{\"group\": \"", absl::Hex(uid, absl::kZeroPad16),
                            "\", \"comm\": ", comm, ", \"rank\": ", rank,
                            ", \"size\": ", size, "}\n"));
  } catch (const std::bad_alloc&) {
  }
  return comm;
}

uint64_t TraceFile::next_set() {
  base::MutexLock lock(mutex_);
  return ++sets_;
}

void TraceFile::add(uint64_t comm, const dw_op& op, uint64_t set,
                    int32_t answer) try {
  std::string line =
      absl::StrCat("{\"comm\": ", comm, ", \"op\": \"", op_text(op.kind), "\"");
  if (op.seq != 0) absl::StrAppend(&line, ", \"seq\": ", op.seq);
  const dw_buf& typed =
      op.in.data != nullptr || op.in.parts != nullptr ? op.in : op.out;
  if (const char* const dtype = dtype_text(typed.dtype); *dtype != 0)
    absl::StrAppend(&line, ", \"dtype\": \"", dtype, "\"");
  if (op.reduce != DW_REDUCE_NONE)
    absl::StrAppend(&line, ", \"reduce\": \"", reduce_text(op.reduce), "\"");
  if (is_message(op.kind))
    absl::StrAppend(&line, ", \"peer\": ", op.peer, ", \"tag\": ", op.tag);
  else if (op.peer >= 0)
    absl::StrAppend(&line, ", \"root\": ", op.peer);
  absl::StrAppend(&line, ", \"in\": ", op.in.count, ", \"out\": ", op.out.count,
                  ", \"flags\": ", op.flags, ", \"set\": ", set,
                  ", \"answer\": ", answer, "}\n");
  base::MutexLock lock(mutex_);
  write_line(line);
} catch (const std::bad_alloc&) {
}

}  // namespace distwrap::algo::record
