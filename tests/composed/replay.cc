#include "composed/replay.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

namespace distwrap::composed {
namespace {

constexpr uint64_t kPage = 4096;

uint64_t element_of(const dw_buf& buf) { return buf.dtype.bits / 8u; }

// The bytes from the first to the last element, including gaps.
uint64_t extent(const dw_buf& buf, int ranks) {
  if (buf.counts == nullptr || buf.displs == nullptr) {
    return static_cast<uint64_t>(buf.count) * element_of(buf);
  }
  int64_t end = 0;
  for (int r = 0; r < ranks; ++r) {
    end = std::max(end, buf.displs[r] + buf.counts[r]);
  }
  return static_cast<uint64_t>(end) * element_of(buf);
}

}  // namespace

void Replay::Free::operator()(std::byte* memory) const { std::free(memory); }

void* Replay::stand_in(const void* original, uint64_t bytes) {
  if (original == nullptr) return nullptr;
  auto& [size, memory] = memory_[original];
  if (memory == nullptr || size < bytes) {
    size = (bytes / kPage + 1) * kPage;
    memory.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, size)));
    if (memory == nullptr) std::abort();
    std::memset(memory.get(), 0, size);
  }
  return memory.get();
}

absl::Status Replay::load(std::vector<Step> steps, int ranks) {
  steps_ = std::move(steps);
  // Reserves all sizes first: memory that moved to a larger buffer would be
  // lost to earlier steps.
  for (Step& step : steps_) {
    if (!step.waits) {
      return absl::UnimplementedError("a part ends after its call");
    }
    for (const dw_op& op : step.ops) {
      for (const dw_buf* buf : {&op.in, &op.out}) {
        if (buf->parts != nullptr) {
          return absl::UnimplementedError("a part has a list of addresses");
        }
        stand_in(buf->data, extent(*buf, ranks));
      }
    }
    const uint64_t bytes = step.count * step.element;
    stand_in(step.out, bytes);
    for (const void* in : step.in) stand_in(in, bytes);
  }
  for (Step& step : steps_) {
    ++parts_;
    for (dw_op& op : step.ops) {
      for (dw_buf* buf : {&op.in, &op.out}) {
        buf->data = stand_in(buf->data, extent(*buf, ranks));
      }
      op.deadline_ns = op.timeout_ns = 0;
      op.fingerprint = 0;
      op.next = nullptr;
    }
    const uint64_t bytes = step.count * step.element;
    step.out = stand_in(step.out, bytes);
    for (const void*& in : step.in) in = stand_in(in, bytes);
    items_.emplace_back();
    if (step.backend == nullptr) continue;
    for (dw_op& op : step.ops) {
      items_.back().push_back({step.comm, &op, nullptr});
    }
  }
  return absl::OkStatus();
}

absl::Status Replay::run() {
  ++runs_;
  for (size_t i = 0; i < steps_.size(); ++i) {
    Step& step = steps_[i];
    if (step.api == nullptr && step.kernel == nullptr) {
      std::memcpy(const_cast<void*>(step.out), step.in[0], step.count);
      continue;
    }
    if (step.kernel != nullptr) {
      step.kernel(const_cast<void*>(step.out), step.in.data(), step.in.size(),
                  step.count, nullptr);
      continue;
    }
    dw_error error{};
    int32_t code;
    if (step.backend != nullptr) {
      code = step.api->submit_group(step.backend, items_[i].data(),
                                    items_[i].size(), &error);
    } else {
      dw_op op = step.ops[0];
      // Far from the numbers of composed operations, and different in each run.
      op.seq += runs_ * 1024;
      code = step.api->submit(step.comm, &op, nullptr, &error);
    }
    if (code != DW_DONE) {
      const std::string text(error.text,
                             strnlen(error.text, sizeof error.text));
      return absl::InternalError(absl::StrCat(text, ", code ", code));
    }
  }
  return absl::OkStatus();
}

}  // namespace distwrap::composed
