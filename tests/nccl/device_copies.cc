#include "device_copies.h"

#include "fakes/gpu/memory.h"
#include "sdk/dtype.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace distwrap::nccl_test {
namespace {

constexpr size_t kGuard = 64;
constexpr size_t kAlignment = 64;
constexpr char kGuardByte = '\x5a';

}  // namespace

DeviceCopies::DeviceCopies(const dw_op& op, int device, int size,
                           bool scale_on_device)
    : op_(op), size_(static_cast<size_t>(size)) {
  if (op.kind != DW_OP_BARRIER) {
    add(op.in);
    add(op.out);
  }
  scale_on_device = scale_on_device && op.reduce == DW_REDUCE_PREMUL_SUM;
  if (scale_on_device) add(op.scale, dw_dtype_bytes(op.in.dtype));
  // Buffers in place share their memory.
  std::sort(spans_.begin(), spans_.end(), [](const Span& a, const Span& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.bytes > b.bytes;
  });
  std::vector<Span> apart;
  for (const Span& span : spans_)
    if (!apart.empty() && span.begin < apart.back().end())
      apart.back().bytes = static_cast<size_t>(
          std::max(span.end(), apart.back().end()) - apart.back().begin);
    else
      apart.push_back(span);
  spans_ = std::move(apart);

  size_t end = kGuard;
  for (Span& span : spans_) {
    // The copy is aligned as the original is.
    const size_t odd = reinterpret_cast<uintptr_t>(span.begin) % kAlignment;
    span.at = (end + kAlignment - 1) / kAlignment * kAlignment + odd;
    end = span.at + span.bytes + kGuard;
  }
  before_.assign(end, kGuardByte);
  for (const Span& span : spans_)
    if (span.bytes != 0) std::memcpy(&before_[span.at], span.begin, span.bytes);
  memory_ = static_cast<char*>(fakes::gpu::allocate(device, end));
  fakes::gpu::write(memory_, before_.data(), end);

  translate(op_.in, in_parts_);
  translate(op_.out, out_parts_);
  if (!scale_on_device) return;
  op_.scale = copy_of(op.scale);
  op_.flags |= DW_FLAG_SCALE_ON_DEVICE;
}

DeviceCopies::~DeviceCopies() { fakes::gpu::release(memory_); }

bool DeviceCopies::give_back() {
  std::vector<char> after(before_.size());
  fakes::gpu::read(after.data(), memory_, after.size());
  for (const Span& span : spans_) {
    if (span.bytes == 0) continue;
    char* const copy = &after[span.at];
    // An input that others read is not written, unless it is wrong.
    if (std::memcmp(&before_[span.at], copy, span.bytes) != 0)
      std::memcpy(span.begin, copy, span.bytes);
    std::memcpy(copy, &before_[span.at], span.bytes);
  }
  return after == before_;
}

void DeviceCopies::add(const void* begin, size_t bytes) {
  if (begin == nullptr) return;
  spans_.push_back(
      {static_cast<char*>(const_cast<void*>(begin)), bytes, size_t{0}});
}

void DeviceCopies::add(const dw_buf& buffer) {
  const size_t element = dw_dtype_bytes(buffer.dtype);
  const auto bytes = [element](int64_t count) {
    return static_cast<size_t>(count) * element;
  };
  if (buffer.parts != nullptr) {
    for (size_t r = 0; r < size_; ++r)
      add(buffer.parts[r], buffer.counts != nullptr
                               ? bytes(buffer.counts[r])
                               : bytes(buffer.count) / size_);
    return;
  }
  int64_t extent = buffer.count;
  if (buffer.displs != nullptr) {
    extent = 0;
    for (size_t r = 0; r < size_; ++r)
      extent = std::max(extent, buffer.displs[r] + buffer.counts[r]);
  }
  add(buffer.data, bytes(extent));
}

void* DeviceCopies::copy_of(const void* address) const {
  for (const Span& span : spans_)
    if (span.begin <= address && address <= span.end() &&
        (address < span.end() || span.bytes == 0))
      return memory_ + span.at +
             (static_cast<const char*>(address) - span.begin);
  return nullptr;
}

void DeviceCopies::translate(dw_buf& buffer, std::vector<void*>& parts) {
  buffer.data = copy_of(buffer.data);
  if (buffer.parts == nullptr) return;
  for (size_t r = 0; r < size_; ++r) parts.push_back(copy_of(buffer.parts[r]));
  buffer.parts = parts.data();
}

}  // namespace distwrap::nccl_test
