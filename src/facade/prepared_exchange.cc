#include "facade/prepared_exchange.h"

#include "base/error.h"
#include "distwrap/deadline.h"
#include "distwrap/distwrap.h"
#include "facade/moe_place.h"
#include "moe/agreement.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace distwrap::facade {
namespace {

constexpr char kSetup[] = "AllToAllVOp.setup";
constexpr char kRun[] = "alltoallv";

// In front of the rows from one rank.
struct RowsHead {
  uint64_t number = 0;
  int64_t bytes = 0;
};
constexpr int64_t kLine = 64;
static_assert(sizeof(RowsHead) <= kLine);

size_t at(int64_t i) { return static_cast<size_t>(i); }

int64_t lines(int64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

}  // namespace

absl::StatusOr<moe::CallPlace> PreparedExchange::place(
    const char* call, const OpOptions& options) const {
  std::shared_ptr<group::GroupState> group = kept_group_of(group_);
  if (group == nullptr) return not_initialized(call);
  return moe_place(call, std::move(group), options);
}

absl::Status PreparedExchange::setup() {
  absl::StatusOr<moe::CallPlace> where = place(kSetup, kDefaultOptions);
  if (!where.ok()) return where.status();
  if (life_ != Life::kNew)
    return refuse(*where, {.reason = Reason::kAlreadyInitialized,
                           .what = "the exchange was set up before",
                           .next_step = "make another one"});
  if (!group_) group_ = Group(where->group);
  const moe::Exchange exchange(*where);
  const int64_t ranks = exchange.size();
  constexpr int64_t kMost = int64_t{1} << 40;
  moe::Fault fault;
  if (capacity_ < 0 || most_ < 0 || capacity_ > kMost || most_ > kMost / ranks)
    fault.set({.reason = Reason::kInvalidArgument,
               .what = "the sizes of the exchange are impossible",
               .expected = absl::StrCat("0 to ", kMost, " bytes"),
               .actual = absl::StrCat(capacity_, ", ", most_)});
  const std::vector<std::array<int64_t, 2>> mine(at(ranks), {capacity_, most_});
  std::vector<std::array<int64_t, 2>> all;
  const moe::Agreement agreement(exchange);
  absl::Status told = agreement.tell(fault, absl::MakeConstSpan(mine), &all);
  if (!told.ok()) return told;
  for (int r = 1; r < ranks; ++r)
    if (all[at(r)] != all[0])
      return exchange.error(
          {.reason = Reason::kCallMismatch,
           .what = "ranks prepare exchanges of different sizes",
           .ranks = {0, r},
           .expected = absl::StrCat(all[0][0], ", ", all[0][1]),
           .actual = absl::StrCat(all[at(r)][0], ", ", all[at(r)][1]),
           .next_step = "give equal sizes on all ranks"});
  stride_ = kLine + lines(most_);
  absl::StatusOr<Window> window = new_window({.group = group_,
                                              .count = 2 * ranks * stride_,
                                              .dtype = DType::kU8,
                                              .signals = ranks});
  if (!window.ok()) return window.status();
  window_ = *std::move(window);
  for (std::vector<uint8_t>& output : outputs_) output.resize(at(capacity_));
  send_buffer_.resize(at(capacity_));
  life_ = Life::kOpen;
  return absl::OkStatus();
}

absl::StatusOr<TensorView> PreparedExchange::send_buffer(int64_t count,
                                                         DType dtype) {
  absl::StatusOr<moe::CallPlace> where = place("send_buffer", kDefaultOptions);
  if (!where.ok()) return where.status();
  if (life_ != Life::kOpen)
    return refuse(*where, {.reason = Reason::kNotInitialized,
                           .what = "the exchange is not set up",
                           .next_step = "call setup on all ranks"});
  const bool known = static_cast<size_t>(dtype) < sizeof internal::kDTypeBytes;
  if (!known || count < 0 || count > capacity_ / dtype_size(dtype))
    return refuse(*where,
                  {.reason = Reason::kInvalidArgument,
                   .what = "the elements exceed the capacity",
                   .expected = absl::StrCat(capacity_, " bytes at most"),
                   .actual = absl::StrCat(count, " elements"),
                   .next_step = "prepare a larger exchange"});
  sent_ = TensorView(send_buffer_.data(), count, dtype);
  return sent_;
}

absl::StatusOr<TensorView> PreparedExchange::run_from_buffer(
    absl::Span<const int64_t> out_splits, absl::Span<const int64_t> in_splits,
    const OpOptions& options) {
  return run(sent_, out_splits, in_splits, options);
}

absl::Status PreparedExchange::read_splits(const moe::Exchange& exchange,
                                           const TensorView& x,
                                           absl::Span<const int64_t> out_splits,
                                           absl::Span<const int64_t> in_splits,
                                           Parts* parts) {
  const auto invalid = [&](std::string what, std::string expected,
                           std::string actual) {
    return exchange.error({.reason = Reason::kInvalidArgument,
                           .what = std::move(what),
                           .expected = std::move(expected),
                           .actual = std::move(actual),
                           .next_step = "correct the argument, or prepare a "
                                        "larger exchange"});
  };
  if (!x.possible() || !x.contiguous() || x.device() != kCpu ||
      static_cast<size_t>(x.dtype()) >= sizeof internal::kDTypeBytes ||
      (x.data() == nullptr && x.count() > 0))
    return invalid("x is not contiguous in host memory", "contiguous rows",
                   x.text());
  int64_t each = dtype_size(x.dtype());
  for (int d = 1; d < x.dims(); ++d) each *= x.extent(d);
  parts->row = each;
  const auto read = [&](const char* name, absl::Span<const int64_t> splits,
                        std::vector<int64_t>* bytes) -> absl::Status {
    if (splits.size() != at(exchange.size()))
      return invalid(absl::StrCat(name, " has the wrong size"),
                     absl::StrCat(exchange.size()),
                     absl::StrCat(splits.size()));
    int64_t left = capacity_;
    for (size_t r = 0; r < splits.size(); ++r) {
      const int64_t most = std::min(left, most_);
      if (splits[r] < 0 || (each > 0 && splits[r] > most / each))
        return invalid(
            absl::StrCat(name, " exceeds the prepared size at rank ", r),
            absl::StrCat("0 to ", each > 0 ? most / each : 0, " rows"),
            absl::StrCat(splits[r]));
      bytes->push_back(splits[r] * each);
      left -= bytes->back();
    }
    return absl::OkStatus();
  };
  if (absl::Status status = read("out_splits", out_splits, &parts->out);
      !status.ok())
    return status;
  if (absl::Status status = read("in_splits", in_splits, &parts->in);
      !status.ok())
    return status;
  int64_t rows = 0;
  for (const int64_t split : in_splits) rows += split;
  if (rows > x.rows())
    return invalid("in_splits needs more rows than x has",
                   absl::StrCat(x.rows()), absl::StrCat(rows));
  return absl::OkStatus();
}

absl::Status PreparedExchange::send(const moe::Exchange& exchange,
                                    const TensorView& x, const Parts& parts,
                                    const CallOptions& how) {
  const int me = exchange.rank(), ranks = exchange.size();
  std::vector<int64_t> begin;
  int64_t next = 0;
  for (const int64_t bytes : parts.in) {
    begin.push_back(next);
    next += bytes;
  }
  for (int i = 1; i < ranks; ++i) {
    const int to = (me + i) % ranks;
    const int64_t bytes = parts.in[at(to)];
    const int64_t offset = room(me, number_);
    if (bytes > 0) {
      const TensorView rows(static_cast<uint8_t*>(x.data()) + begin[at(to)],
                            bytes, DType::kU8);
      const absl::StatusOr<Work> put =
          window_.put(rows, Peer::group(to), offset + kLine, how);
      if (!put.ok()) return exchange.finish(put.status());
    }
    RowsHead head{number_, bytes};
    const TensorView heading(reinterpret_cast<uint8_t*>(&head), sizeof head,
                             DType::kU8);
    const absl::StatusOr<Work> told = window_.put_signal(
        heading, Peer::group(to), offset, me, number_, SignalHow::kSet, how);
    if (!told.ok()) return exchange.finish(told.status());
  }
  return absl::OkStatus();
}

absl::Status PreparedExchange::take(const moe::Exchange& exchange, int from,
                                    int64_t expected, uint8_t* to,
                                    const CallOptions& how) {
  const absl::StatusOr<Work> heard =
      window_.wait_signal(from, Compare::kGe, number_, how);
  if (!heard.ok()) {
    const bool late = error_reason(heard.status()) == Reason::kTimedOut;
    return base::amend_error(exchange.finish(heard.status()),
                             [&](ErrorInfo& info) {
                               if (late && info.ranks.empty())
                                 info.ranks = {from};
                             });
  }
  const auto* const room_of =
      static_cast<const uint8_t*>(window_.memory().data()) +
      room(from, number_);
  RowsHead head;
  memcpy(&head, room_of, sizeof head);
  if (head.number == number_ && head.bytes == expected) {
    if (expected > 0) memcpy(to, room_of + kLine, at(expected));
    return absl::OkStatus();
  }
  absl::Status status = exchange.error(
      {.reason = Reason::kCallMismatch,
       .what = "a rank sends other rows than its receiver expects",
       .ranks = {from},
       .expected = absl::StrCat(expected, " bytes in call ", number_),
       .actual = absl::StrCat(head.bytes, " bytes in call ", head.number),
       .next_step = "let in_splits and out_splits agree"});
  exchange.place().communicator->break_by(status);
  return status;
}

absl::StatusOr<TensorView> PreparedExchange::run(
    const TensorView& x, absl::Span<const int64_t> out_splits,
    absl::Span<const int64_t> in_splits, const OpOptions& options) {
  absl::StatusOr<moe::CallPlace> where = place(kRun, options);
  if (!where.ok()) return where.status();
  if (life_ != Life::kOpen)
    return refuse(*where, {.reason = Reason::kNotInitialized,
                           .what = "the exchange is not set up",
                           .next_step = "call setup on all ranks"});
  if (options.async)
    return refuse(*where, {.reason = Reason::kInvalidArgument,
                           .what = "this call does not take `async`",
                           .next_step = "leave it out, or call in a thread"});
  if (failed_.has_value()) return *failed_;
  const moe::Exchange exchange(*where);
  if (absl::Status open = exchange.check_open(); !open.ok()) return open;
  Parts parts;
  if (absl::Status good =
          read_splits(exchange, x, out_splits, in_splits, &parts);
      !good.ok())
    return good;

  const size_t slot = ++number_ % 2;
  std::vector<int64_t>& shape = shapes_[slot];
  shape.assign(1, 0);
  for (const int64_t rows : out_splits) shape[0] += rows;
  for (int d = 1; d < x.dims(); ++d) shape.push_back(x.extent(d));
  uint8_t* to = outputs_[slot].data();
  const TensorView out(to, shape, x.dtype(), kCpu);
  return shown_moe(
      *where, {&x, 1}, {&out, 1}, options, [&]() -> absl::StatusOr<TensorView> {
        const Deadline deadline =
            Deadline::after(options.timeout.value_or(where->group->timeout()));
        const auto how = [&] {
          return CallOptions{
              .timeout = std::max(deadline.remaining(), absl::Microseconds(1)),
              .label = options.label};
        };
        absl::Status status = send(exchange, x, parts, how());
        const int me = exchange.rank();
        for (int r = 0; r < exchange.size() && status.ok(); ++r) {
          const int64_t bytes = parts.out[at(r)];
          if (r != me) {
            status = take(exchange, r, bytes, to, how());
          } else if (bytes != parts.in[at(me)]) {
            status = exchange.error(
                {.reason = Reason::kCallMismatch,
                 .what = "the own rows differ in in_splits and out_splits",
                 .ranks = {me},
                 .expected = absl::StrCat(bytes, " bytes"),
                 .actual = absl::StrCat(parts.in[at(me)], " bytes"),
                 .next_step = "let in_splits and out_splits agree"});
            exchange.place().communicator->break_by(status);
          } else if (bytes > 0) {
            int64_t begin = 0;
            for (int q = 0; q < me; ++q) begin += parts.in[at(q)];
            memcpy(to, static_cast<const uint8_t*>(x.data()) + begin,
                   at(bytes));
          }
          to += bytes;
        }
        if (status.ok()) return out;
        failed_ = status;
        return status;
      });
}

absl::Status PreparedExchange::close() {
  if (life_ != Life::kOpen) {
    life_ = Life::kClosed;
    return absl::OkStatus();
  }
  life_ = Life::kClosed;
  // Waits for the other ranks, which may still read what came.
  const absl::Status status = window_.destroy();
  window_ = Window();
  return status;
}

}  // namespace distwrap::facade
