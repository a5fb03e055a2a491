// Messages. The functions of the facade return different types, so each is
// written out here.
#include "capi/operation.h"
#include "distwrap/c.h"

#include <algorithm>
#include <vector>

using namespace distwrap::capi;  // NOLINT(google-build-using-namespace)

int32_t distwrap_send(const distwrap_tensor* tensor, distwrap_peer dst,
                      int64_t tag, const distwrap_op_options* options,
                      distwrap_error* error) {
  return operation(
      "send", options, nullptr, error,
      [](const auto&... a) -> absl::StatusOr<distwrap::Work> {
        absl::Status sent = distwrap::send(a...);
        if (!sent.ok()) return sent;
        return distwrap::Work();
      },
      [](distwrap::Batch& batch, const auto&... a) { batch.send(a...); },
      Tensor{tensor, "tensor"}, dst, tag);
}

int32_t distwrap_recv(const distwrap_tensor* tensor, distwrap_peer src,
                      int64_t tag, const distwrap_op_options* options,
                      int32_t* source, distwrap_error* error) {
  return operation(
      "recv", options, nullptr, error,
      [source](const auto&... a) -> absl::StatusOr<distwrap::Work> {
        const absl::StatusOr<int> from = distwrap::recv(a...);
        if (!from.ok()) return from.status();
        if (source != nullptr) *source = *from;
        return distwrap::Work();
      },
      [](distwrap::Batch& batch, const auto&... a) { batch.recv(a...); },
      Tensor{tensor, "tensor"}, src, tag);
}

int32_t distwrap_isend(const distwrap_tensor* tensor, distwrap_peer dst,
                       int64_t tag, const distwrap_op_options* options,
                       distwrap_work* work, distwrap_error* error) {
  if (work == nullptr)
    return entry("isend", error, [] { return refuse_null("isend", "work"); });
  return operation(
      "isend", options, work, error,
      [](const auto&... a) { return distwrap::isend(a...); },
      [](distwrap::Batch&, const auto&...) {}, Tensor{tensor, "tensor"}, dst,
      tag);
}

int32_t distwrap_irecv(const distwrap_tensor* tensor, distwrap_peer src,
                       int64_t tag, const distwrap_op_options* options,
                       distwrap_work* work, distwrap_error* error) {
  if (work == nullptr)
    return entry("irecv", error, [] { return refuse_null("irecv", "work"); });
  return operation(
      "irecv", options, work, error,
      [](const auto&... a) { return distwrap::irecv(a...); },
      [](distwrap::Batch&, const auto&...) {}, Tensor{tensor, "tensor"}, src,
      tag);
}

int32_t distwrap_batch_isend_irecv(const distwrap_p2p_op* ops, uint64_t count,
                                   const distwrap_op_options* options,
                                   distwrap_work* works,
                                   distwrap_error* error) {
  constexpr const char* kCall = "batch_isend_irecv";
  return entry(kCall, error, [&]() -> absl::Status {
    if (count != 0 && ops == nullptr) return refuse_null(kCall, "ops");
    if (count != 0 && works == nullptr) return refuse_null(kCall, "works");
    std::fill_n(works, count, nullptr);
    Arguments arguments(kCall);
    arguments.read(options, false);
    arguments.refuse_batch();
    std::vector<distwrap::P2POp> list;
    for (uint64_t i = 0; i < count && arguments.status().ok(); ++i) {
      const auto group = group_of(kCall, ops[i].group);
      if (!group.ok()) return group.status();
      using Kind = distwrap::P2POp::Kind;
      list.push_back({.kind = ops[i].kind == DW_ISEND   ? Kind::kIsend
                              : ops[i].kind == DW_IRECV ? Kind::kIrecv
                                                        : Kind{255},
                      .tensor = arguments.of(Tensor{ops[i].tensor, "tensor"}),
                      .peer = arguments.of(ops[i].peer),
                      .group = *group,
                      .tag = ops[i].tag});
    }
    if (!arguments.status().ok()) return arguments.status();
    distwrap::OpOptions how = arguments.options();
    how.group = arguments.kept_group();
    // Nothing starts for which the caller could not get a handle.
    std::vector<Table<distwrap_work>::Reservation> reserved;
    reserved.reserve(count);
    for (uint64_t i = 0; i < count; ++i) {
      reserved.push_back(table<distwrap_work>.reserve());
      if (!reserved.back()) return too_many_handles(kCall);
    }
    auto begun = distwrap::batch_isend_irecv(list, how);
    if (!begun.ok()) return begun.status();
    for (uint64_t i = 0; i < count; ++i)
      works[i] = handle_of<distwrap_work>(table<distwrap_work>.add(
          std::move(reserved[i]), std::move((*begun)[i])));
    return absl::OkStatus();
  });
}
