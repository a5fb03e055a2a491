#include "mesh/step_call.h"

#include "comm/op_shape.h"
#include "group/group_state.h"
#include "mesh/step_blocks.h"

#include <utility>
#include <vector>

namespace distwrap::mesh {

uint64_t fingerprint_of(absl::string_view text) {
  // FNV-1a.
  constexpr uint64_t kPrime = 0x100000001b3u;
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text)
    hash = (hash ^ static_cast<unsigned char>(c)) * kPrime;
  return hash == 0 ? 1 : hash;
}

bool StepCall::moves_blocks(const Group& group, uint16_t kind) {
  comm::BackendCommunicator* const communicator = group.state()->find(kCpu);
  if (communicator == nullptr) return false;
  const comm::BackendCommunicator::Reference kept(communicator);
  if (kept.comm() == nullptr) return false;
  // An operation that moves nothing.
  const std::vector<dw_block> blocks(static_cast<size_t>(group.size()));
  const std::vector<int64_t> counts(blocks.size());
  const dw_ext_blocks extension = blocks_of(blocks.data(), blocks.data());
  dw_op op = {};
  op.struct_size = sizeof op;
  op.kind = kind;
  op.flags = DW_FLAG_PER_RANK | DW_FLAG_CALLER_WAITS;
  op.peer = -1;
  op.in.dtype = op.out.dtype = {1, 8, 1};
  op.out.counts = counts.data();
  if (kind == DW_OP_ALL_TO_ALL) op.in.counts = counts.data();
  op.next = &extension.head;
  return communicator->instance()->api().query(kept.comm(), &op, nullptr) ==
         DW_OK;
}

absl::StatusOr<const comm::PreparedCall*> StepCall::prepare(
    const CallOptions& options, absl::FunctionRef<Arguments()> describe) const {
  const Arguments arguments = describe();
  comm::BackendCommunicator* const communicator = group_.state()->find(kCpu);
  if (communicator == nullptr)
    return group_.state()->no_communicator(kCpu,
                                           comm::op_shape(arguments.kind).name);
  absl::StatusOr<std::unique_ptr<comm::PreparedCall>> made =
      communicator->prepare_call(arguments.kind, arguments.call, options,
                                 fingerprint_);
  if (!made.ok()) return made.status();
  // Another thread may have prepared it meanwhile.
  const comm::PreparedCall* there = nullptr;
  if (call_.compare_exchange_strong(there, made->get(),
                                    std::memory_order_acq_rel))
    return made->release();
  return there;
}

absl::Status StepCall::run(TensorView to, TensorView from,
                           const CallOptions& options,
                           absl::FunctionRef<Arguments()> describe) const {
  const comm::PreparedCall* call = call_.load(std::memory_order_acquire);
  if (call == nullptr) {
    const auto made = prepare(options, describe);
    if (!made.ok()) return made.status();
    call = *made;
  }
  return call->communicator()
      .start_prepared(*call, {.in = from.data(), .out = to.data()}, options)
      .status();
}

}  // namespace distwrap::mesh
