#include "exercise.h"

#include "distwrap/abi/note.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <numeric>

extern "C" const dw_backend_api* dw_plugin_query_v1_gloo(const dw_host_info*);

namespace distwrap::gloo_test {
namespace {

constexpr int32_t kStranger = -77777777;
constexpr size_t kGap = 3;
constexpr dw_dtype kI32 = {0, 32, 1};
constexpr dw_dtype kF32 = {2, 32, 1};

dw_buf whole(void* data, size_t count, dw_dtype dtype) {
  dw_buf buf = {};
  buf.data = data;
  buf.count = static_cast<int64_t>(count);
  buf.dtype = dtype;
  return buf;
}

}  // namespace

const dw_backend_api& gloo() {
  static const dw_host_info kHost = {
      sizeof(dw_host_info), DW_ABI_MAJOR, DW_ABI_MINOR, DW_SANITIZER, 0,
      {"test", 4}};
  return *dw_plugin_query_v1_gloo(&kHost);
}

void on_ranks(int size, const std::function<void(Member&)>& body) {
  conformance::Findings findings;
  run_team(gloo(), size, {}, findings, body);
  EXPECT_TRUE(findings.empty()) << findings.text();
}

dw_op op_of(uint16_t kind, uint64_t seq) {
  dw_op op = {};
  op.struct_size = sizeof op;
  op.kind = kind;
  op.seq = seq;
  op.peer = -1;
  if (kind == DW_OP_ALL_REDUCE || kind == DW_OP_REDUCE ||
      kind == DW_OP_REDUCE_SCATTER)
    op.reduce = DW_REDUCE_SUM;
  return op;
}

dw_buf buffer_of(std::vector<int32_t>& elements) {
  return whole(elements.data(), elements.size(), kI32);
}

dw_buf buffer_of(std::vector<float>& elements) {
  return whole(elements.data(), elements.size(), kF32);
}

std::string run(Member& member, dw_op op, bool caller_waits) {
  dw_error error = {};
  dw_work work;
  if (caller_waits) op.flags |= DW_FLAG_CALLER_WAITS;
  int32_t code =
      gloo().submit(member.comm, &op, caller_waits ? nullptr : &work, &error);
  if (code == DW_DONE) return "";
  if (code != DW_OK || caller_waits)
    return "submit: " + std::to_string(code) + ": " + error.text;
  if (!work.wait(std::chrono::seconds(20))) return "does not complete";
  return work.code() == DW_OK
             ? ""
             : "completes with " + std::to_string(work.code()) + ": " +
                   work.error().text;
}

Pieces::Pieces(Lists lists, std::vector<int64_t> counts)
    : lists_(lists),
      counts_(std::move(counts)),
      places_(counts_.size()),
      pieces_(counts_.size()),
      parts_(counts_.size()) {
  const bool gaps = lists != Lists::kPacked && lists != Lists::kEqual;
  size_t end = gaps ? kGap : 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    const size_t r = gaps ? counts_.size() - 1 - i : i;
    places_[r] = static_cast<int64_t>(end);
    end += static_cast<size_t>(counts_[r]) + (gaps ? kGap : 0);
  }
  memory_.assign(end, kStranger);
  for (size_t r = 0; r < counts_.size(); ++r)
    parts_[r] = pieces_[r] = memory_.data() + places_[r];
}

dw_buf Pieces::buffer() {
  dw_buf buf = {};
  buf.dtype = kI32;
  buf.count = std::accumulate(counts_.begin(), counts_.end(), int64_t{0});
  if (lists_ == Lists::kParts)
    buf.parts = parts_.data();
  else
    buf.data = memory_.data();
  if (lists_ != Lists::kEqual) buf.counts = counts_.data();
  if (lists_ == Lists::kGaps) buf.displs = places_.data();
  return buf;
}

uint32_t Pieces::flags() const {
  return (lists_ == Lists::kEqual ? 0 : uint32_t{DW_FLAG_PER_RANK}) |
         (lists_ == Lists::kParts ? uint32_t{DW_FLAG_PARTS} : 0);
}

bool Pieces::gaps_intact() const {
  std::vector<bool> ours(memory_.size(), false);
  for (size_t r = 0; r < counts_.size(); ++r)
    for (int64_t i = 0; i < counts_[r]; ++i)
      ours[static_cast<size_t>(places_[r] + i)] = true;
  for (size_t i = 0; i < memory_.size(); ++i)
    if (!ours[i] && memory_[i] != kStranger) return false;
  return true;
}

Exercise::Exercise(const Member& member, const Plan& plan)
    : plan_(plan), rank_(member.rank), size_(member.size) {
  std::vector<int64_t> sent, received;
  for (int r = 0; r < size_; ++r) {
    sent.push_back(count(rank_, r));
    received.push_back(count(r, rank_));
  }
  const auto own = static_cast<size_t>(count(rank_, rank_));
  if (brings_pieces())
    in_pieces_ = Pieces(plan.lists, sent);
  else if (brings())
    in_.assign(own, 0);
  if (takes_pieces())
    out_pieces_ = Pieces(plan.lists, received);
  else if (takes())
    out_.assign(own, kStranger);
  fill_in();
}

bool Exercise::brings() const {
  return plan_.kind != DW_OP_BARRIER &&
         ((plan_.kind != DW_OP_BROADCAST && plan_.kind != DW_OP_SCATTER) ||
          plan_.root == rank_);
}

bool Exercise::takes() const {
  return plan_.kind != DW_OP_BARRIER &&
         ((plan_.kind != DW_OP_REDUCE && plan_.kind != DW_OP_GATHER) ||
          plan_.root == rank_);
}

bool Exercise::brings_pieces() const {
  return brings() &&
         (plan_.kind == DW_OP_SCATTER || plan_.kind == DW_OP_ALL_TO_ALL ||
          plan_.kind == DW_OP_REDUCE_SCATTER);
}

bool Exercise::takes_pieces() const {
  return takes() &&
         (plan_.kind == DW_OP_GATHER || plan_.kind == DW_OP_ALL_TO_ALL ||
          plan_.kind == DW_OP_ALL_GATHER);
}

// The number of elements from one rank to another. Data that are not for one
// rank only have one count for all receivers or senders.
int64_t Exercise::count(int from, int to) const {
  if (plan_.lists == Lists::kEqual) return 5 * plan_.scale;
  switch (plan_.kind) {
    case DW_OP_ALL_TO_ALL:
      return (from * 2 + to * 3) % 4 * plan_.scale;
    case DW_OP_SCATTER:
    case DW_OP_REDUCE_SCATTER:
      return (to * 3 + 1) % 4 * plan_.scale;
    default:
      return (from * 3 + 1) % 4 * plan_.scale;
  }
}

int32_t Exercise::value(int from, int to, size_t i) const {
  return plan_.salt * 1000003 + from * 10007 + to * 101 +
         static_cast<int32_t>(i);
}

// The element that this rank gets from `from` at place `i`.
int32_t Exercise::result(int from, size_t i) const {
  int32_t sum = 0;
  switch (plan_.kind) {
    case DW_OP_REDUCE:
    case DW_OP_ALL_REDUCE:
      for (int r = 0; r < size_; ++r) sum += value(r, 0, i);
      return sum;
    case DW_OP_REDUCE_SCATTER:
      for (int r = 0; r < size_; ++r) sum += value(r, rank_, i);
      return sum;
    case DW_OP_BROADCAST:
      return value(plan_.root, 0, i);
    case DW_OP_SCATTER:
      return value(plan_.root, rank_, i);
    case DW_OP_ALL_TO_ALL:
      return value(from, rank_, i);
    default:
      return value(from, 0, i);
  }
}

void Exercise::fill_in() {
  if (brings_pieces()) {
    for (int r = 0; r < size_; ++r)
      for (size_t i = 0; i < in_pieces_.count(r); ++i)
        in_pieces_.at(r)[i] = value(rank_, r, i);
    return;
  }
  int32_t* const in = plan_.in_place && takes_pieces() ? out_pieces_.at(rank_)
                      : plan_.in_place && takes()      ? out_.data()
                                                       : in_.data();
  for (size_t i = 0; i < in_.size(); ++i) in[i] = in_[i] = value(rank_, 0, i);
}

dw_op Exercise::op(uint64_t seq) {
  dw_op op = op_of(plan_.kind, seq);
  if (has_root(plan_.kind)) op.peer = plan_.root;
  if (brings()) op.in = brings_pieces() ? in_pieces_.buffer() : buffer_of(in_);
  if (takes()) op.out = takes_pieces() ? out_pieces_.buffer() : buffer_of(out_);
  if (brings_pieces()) op.flags |= in_pieces_.flags();
  if (takes_pieces()) op.flags |= out_pieces_.flags();
  if (plan_.in_place && brings() && takes()) {
    op.flags |= DW_FLAG_IN_PLACE;
    if (brings_pieces())
      op.out.data = in_pieces_.at(rank_);
    else
      op.in.data = takes_pieces() ? out_pieces_.at(rank_) : out_.data();
  }
  return op;
}

std::string Exercise::wrong() {
  const bool in_place = plan_.in_place && brings() && takes();
  const auto differs = [&](const int32_t* out, int from, size_t n) {
    for (size_t i = 0; i < n; ++i)
      if (out[i] != result(from, i)) return true;
    return false;
  };
  if (takes_pieces()) {
    for (int r = 0; r < size_; ++r)
      if (differs(out_pieces_.at(r), r, out_pieces_.count(r)))
        return "wrong piece of rank " + std::to_string(r);
    if (!out_pieces_.gaps_intact()) return "wrote beside the pieces";
  } else if (takes()) {
    const bool shares = in_place && brings_pieces();
    if (differs(shares ? in_pieces_.at(rank_) : out_.data(), rank_,
                out_.size()))
      return "wrong output";
  }
  if (brings_pieces()) {
    for (int r = 0; r < size_; ++r)
      for (size_t i = 0; i < in_pieces_.count(r); ++i)
        if ((!in_place || r != rank_) &&
            in_pieces_.at(r)[i] != value(rank_, r, i))
          return "wrote to the input";
    return in_pieces_.gaps_intact() ? "" : "wrote beside the input";
  }
  for (size_t i = 0; i < in_.size(); ++i)
    if (in_[i] != value(rank_, 0, i)) return "wrote to the input";
  return "";
}

std::string name_of(const Exercise::Plan& plan) {
  return "kind " + std::to_string(plan.kind) + " lists " +
         std::to_string(static_cast<int>(plan.lists)) + " root " +
         std::to_string(plan.root) + (plan.in_place ? " in place" : "");
}

const std::vector<uint16_t>& collectives() {
  static const std::vector<uint16_t> kAll = {
      DW_OP_BARRIER,    DW_OP_BROADCAST,      DW_OP_REDUCE,
      DW_OP_ALL_REDUCE, DW_OP_GATHER,         DW_OP_SCATTER,
      DW_OP_ALL_GATHER, DW_OP_REDUCE_SCATTER, DW_OP_ALL_TO_ALL};
  return kAll;
}

bool has_lists(uint16_t kind) {
  return kind == DW_OP_GATHER || kind == DW_OP_SCATTER ||
         kind == DW_OP_ALL_GATHER || kind == DW_OP_REDUCE_SCATTER ||
         kind == DW_OP_ALL_TO_ALL;
}

bool has_root(uint16_t kind) {
  return kind == DW_OP_BROADCAST || kind == DW_OP_REDUCE ||
         kind == DW_OP_GATHER || kind == DW_OP_SCATTER;
}

}  // namespace distwrap::gloo_test
