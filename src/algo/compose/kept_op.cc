#include "algo/compose/kept_op.h"

#include <algorithm>

namespace distwrap::algo::compose {

KeptOp::KeptOp(const dw_op& op, int size) : op_(op) {
  op_.next = nullptr;
  keep(&op_.in, static_cast<size_t>(size));
  keep(&op_.out, static_cast<size_t>(size));
}

void KeptOp::keep(dw_buf* buf, size_t size) {
  for (const int64_t** list : {&buf->counts, &buf->displs}) {
    if (*list == nullptr) continue;
    numbers_.push_back(std::make_unique<int64_t[]>(size));
    std::copy_n(*list, size, numbers_.back().get());
    *list = numbers_.back().get();
  }
  if (buf->parts == nullptr) return;
  addresses_.push_back(std::make_unique<void*[]>(size));
  std::copy_n(buf->parts, size, addresses_.back().get());
  buf->parts = addresses_.back().get();
}

}  // namespace distwrap::algo::compose
