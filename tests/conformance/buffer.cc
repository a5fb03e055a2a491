#include "buffer.h"

#include "sdk/dtype.h"

#include <numeric>

namespace distwrap::conformance {
namespace {

constexpr size_t kGap = 3;  // elements

}  // namespace

Buffer::Buffer(int dtype, const std::vector<size_t>& counts, Form form,
               bool odd)
    : dtype_(dtype), element_(element_size(dtype)) {
  const size_t total = std::accumulate(counts.begin(), counts.end(), size_t{0});
  const bool listed = form == Form::kParts || form == Form::kPartCounts;
  const bool gaps = form == Form::kGaps;
  size_t extent = total + (gaps ? kGap * (counts.size() + 1) : 0);
  size_t offset = gaps ? kGap : 0;
  pieces_.resize(counts.size());
  if (!listed) {
    blocks_.push_back(
        std::make_unique<GuardedBytes>(extent * element_, element_, odd));
    // With gaps, the last rank's piece comes first.
    for (size_t i = 0; i < counts.size(); ++i) {
      const size_t r = gaps ? counts.size() - 1 - i : i;
      pieces_[r] = {0, offset * element_, counts[r]};
      offset += counts[r] + (gaps ? kGap : 0);
    }
  } else {
    for (size_t r = 0; r < counts.size(); ++r) {
      blocks_.push_back(
          std::make_unique<GuardedBytes>(counts[r] * element_, element_, odd));
      pieces_[r] = {r, 0, counts[r]};
      parts_.push_back(blocks_.back()->data());
    }
  }
  if (form != Form::kPlain && form != Form::kParts)
    for (const size_t count : counts)
      counts_.push_back(static_cast<int64_t>(count));
  if (gaps)
    for (const Piece& piece : pieces_)
      displs_.push_back(static_cast<int64_t>(piece.offset / element_));
  // An empty buffer sometimes has no address.
  if (!listed && !(odd && extent == 0)) view_.data = blocks_[0]->data();
  view_.parts = parts_.empty() ? nullptr : parts_.data();
  view_.count = static_cast<int64_t>(total);
  view_.counts = counts_.empty() ? nullptr : counts_.data();
  view_.displs = displs_.empty() ? nullptr : displs_.data();
  view_.dtype = dw_dtype_of(dtype);
}

Buffer::Buffer(Buffer& other, size_t piece)
    : dtype_(other.dtype_),
      element_(other.element_),
      within_(&other),
      pieces_{other.pieces_[piece]} {
  view_.data = other.address(pieces_[0]);
  view_.count = static_cast<int64_t>(pieces_[0].count);
  view_.dtype = dw_dtype_of(dtype_);
}

dw_buf Buffer::view() const { return view_; }

char* Buffer::address(const Piece& piece) const {
  return blocks_[piece.block]->data() + piece.offset;
}

void Buffer::put(size_t piece, const std::string& period, size_t phase) {
  const Piece& p = pieces_[piece];
  const Buffer& owner = within_ == nullptr ? *this : *within_;
  owner.blocks_[p.block]->put(p.offset, period, element_, phase, p.count);
}

void Buffer::want(size_t piece, const std::string& period, size_t phase,
                  const Ranges& allowed) {
  const Piece& p = pieces_[piece];
  const Buffer& owner = within_ == nullptr ? *this : *within_;
  owner.blocks_[p.block]->want(p.offset, period, element_, phase, p.count,
                               allowed);
}

std::string Buffer::wrong(const std::string& name, int nan_dtype) const {
  for (const auto& block : blocks_)
    if (std::string text = block->wrong(name, nan_dtype); !text.empty())
      return text;
  return "";
}

}  // namespace distwrap::conformance
