#include "run_rows.h"

#include <algorithm>
#include <chrono>
#include <numeric>

namespace distwrap::conformance {

RowMemory::RowMemory(const Member& member, bool allocated, size_t bytes,
                     unsigned char fill)
    : member_(member), bytes_(bytes) {
  void* data = nullptr;
  if (allocated && member.api.mem_alloc != nullptr &&
      member.api.mem_alloc(member.backend, bytes, &memory_, &data, nullptr) ==
          DW_OK) {
    data_ = static_cast<unsigned char*>(data);
  } else {
    own_ = std::make_unique<unsigned char[]>(bytes);
    data_ = own_.get();
  }
  std::fill_n(data_, bytes, fill);
}

RowMemory::~RowMemory() {
  if (memory_ == nullptr) return;
  dw_error error = {};
  const int32_t code =
      member_.api.mem_release(member_.backend, memory_, &error);
  if (code != DW_OK)
    member_.find("memory of rows cannot be released: " +
                 error_text(code, error));
}

dw_op rows_op(const dw_ext* rows, const std::vector<int64_t>& in_counts,
              const std::vector<int64_t>& out_counts, uint64_t seq) {
  dw_op op = {};
  op.struct_size = sizeof op;
  op.kind = DW_OP_ALL_TO_ALL;
  op.flags = DW_FLAG_PER_RANK;
  op.peer = -1;
  op.seq = seq;
  op.next = rows;
  const auto fill = [](const std::vector<int64_t>& counts, dw_buf* buf) {
    buf->dtype = {1, 8, 1};
    buf->counts = counts.data();
    buf->count = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  };
  fill(in_counts, &op.in);
  fill(out_counts, &op.out);
  return op;
}

int32_t run_rows(Member& member, dw_op op, dw_work* work, dw_error* error) {
  if (work == nullptr) op.flags |= DW_FLAG_CALLER_WAITS;
  int32_t code = DW_AGAIN;
  while (code == DW_AGAIN)
    code = member.api.submit(member.comm, &op, work, error);
  if (work == nullptr || code != DW_OK) return code;
  const auto end = std::chrono::steady_clock::now() + member.limits.operation;
  while (!work->wait(std::chrono::milliseconds(1))) {
    if (member.api.progress != nullptr) member.api.progress(member.backend);
    if (std::chrono::steady_clock::now() > end) {
      member.aborts();
      return DW_DEADLINE_EXCEEDED;
    }
  }
  *error = work->error();
  return work->code() == DW_OK ? int32_t{DW_DONE} : work->code();
}

}  // namespace distwrap::conformance
