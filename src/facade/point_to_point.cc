// Messages, alone and as items of a batch.
#include "base/error.h"
#include "base/exceptions.h"
#include "distwrap/batch.h"
#include "facade/dispatch.h"

#include <absl/strings/str_cat.h>

#include <utility>

namespace distwrap {

using facade::Role;

// The rank of the world, or -1 for a rank that the communicator refuses.
static int global_rank(const Group& of, int rank) {
  const std::vector<int>& ranks = facade::group_of(of)->global_ranks();
  return rank >= 0 && rank < static_cast<int>(ranks.size())
             ? ranks[static_cast<size_t>(rank)]
             : -1;
}

absl::Status send(TensorView tensor, Peer dst, int64_t tag,
                  const OpOptions& options) {
  return facade::run_rooted("send", options, tensor.device(), dst,
                            Role::kDestination,
                            [&](auto& communicator, int peer, CallOptions how) {
                              how.async = false;
                              return communicator.send(tensor, peer, tag, how);
                            })
      .status();
}

absl::StatusOr<int> recv(TensorView tensor, Peer src, int64_t tag,
                         const OpOptions& options) {
  int source = -1;  // rank of the world; computed before hooks may end the
                    // group
  const absl::Status status =
      facade::run_rooted("recv", options, tensor.device(), src,
                         Role::kReceiveSource,
                         [&](auto& communicator, int peer, CallOptions how) {
                           how.async = false;
                           source = global_rank(options.group, peer);
                           return communicator.recv(tensor, peer, tag, how);
                         })
          .status();
  if (!status.ok()) return status;
  return source;
}

absl::StatusOr<Work> isend(TensorView tensor, Peer dst, int64_t tag,
                           const OpOptions& options) {
  return facade::run_rooted("isend", options, tensor.device(), dst,
                            Role::kDestination,
                            [&](auto& communicator, int peer, CallOptions how) {
                              how.async = true;
                              return communicator.send(tensor, peer, tag, how);
                            });
}

absl::StatusOr<Work> irecv(TensorView tensor, Peer src, int64_t tag,
                           const OpOptions& options) {
  return facade::run_rooted("irecv", options, tensor.device(), src,
                            Role::kReceiveSource,
                            [&](auto& communicator, int peer, CallOptions how) {
                              how.async = true;
                              return communicator.recv(tensor, peer, tag, how);
                            });
}

int Batch::send(TensorView tensor, Peer dst, int64_t tag,
                const OpOptions& options) {
  return facade::record_rooted(
      *items_, "send", options, tensor.device(), dst, Role::kDestination,
      [&](Communicator& communicator, int peer, const CallOptions& how) {
        return communicator.send(tensor, peer, tag, how);
      });
}

int Batch::recv(TensorView tensor, Peer src, int64_t tag,
                const OpOptions& options) {
  return facade::record_rooted(
      *items_, "recv", options, tensor.device(), src, Role::kReceiveSource,
      [&](Communicator& communicator, int peer, const CallOptions& how) {
        return communicator.recv(tensor, peer, tag, how);
      });
}

int Batch::add(const P2POp& op, const OpOptions& options) {
  OpOptions own = options;
  if (op.group) own.group = op.group;
  switch (op.kind) {
    case P2POp::Kind::kIsend:
      return send(op.tensor, op.peer, op.tag, own);
    case P2POp::Kind::kIrecv:
      return recv(op.tensor, op.peer, op.tag, own);
  }
  constexpr char kCall[] = "batch_isend_irecv";
  const group::GroupState* const group = facade::group_of(own.group);
  if (group == nullptr)
    return items_->keep(size(), facade::not_initialized(kCall));
  return items_->keep(
      size(), facade::refusal(kCall, *group, own,
                              {.reason = Reason::kP2PUnknown,
                               .what = absl::StrCat("Unknown P2P operation ",
                                                    static_cast<int>(op.kind)),
                               .next_step = "use P2POp::Kind::kIsend or "
                                            "P2POp::Kind::kIrecv"}));
}

absl::StatusOr<std::vector<Work>> batch_isend_irecv(
    absl::Span<const P2POp> ops, const OpOptions& options) try {
  if (facade::group_of(options.group) == nullptr)
    return facade::not_initialized("batch_isend_irecv");
  Batch batch;
  for (const P2POp& op : ops) batch.add(op, options);
  const absl::Status started = batch.submit().status();
  if (!started.ok()) return started;
  return batch.works();
} catch (...) {
  return base::error_of_exception("batch_isend_irecv");
}

}  // namespace distwrap
