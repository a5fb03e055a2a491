#include "bench/table_contestant.h"

#include "comm/setup.h"
#include "plugin/registry.h"

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>

#include <cstring>
#include <utility>

namespace distwrap::bench {
namespace {

uint16_t kind_of(Operation op) {
  switch (op) {
    case Operation::kBarrier:
      return DW_OP_BARRIER;
    case Operation::kBroadcast:
      return DW_OP_BROADCAST;
    case Operation::kReduce:
      return DW_OP_REDUCE;
    case Operation::kAllReduce:
      return DW_OP_ALL_REDUCE;
    case Operation::kGather:
    case Operation::kGatherV:
      return DW_OP_GATHER;
    case Operation::kScatter:
    case Operation::kScatterV:
      return DW_OP_SCATTER;
    case Operation::kAllGather:
    case Operation::kAllGatherV:
      return DW_OP_ALL_GATHER;
    case Operation::kReduceScatter:
    case Operation::kReduceScatterV:
      return DW_OP_REDUCE_SCATTER;
    case Operation::kAllToAll:
    case Operation::kAllToAllV:
      return DW_OP_ALL_TO_ALL;
    case Operation::kScan:
    case Operation::kExscan:
      return DW_OP_SCAN;
    case Operation::kSendRecv:
    case Operation::kRing:
    case Operation::kWinPut:
    case Operation::kWinPutRate:
    case Operation::kWinGet:
    case Operation::kWinFetchAdd:
    case Operation::kWinSignal:
      break;
  }
  return 0;
}

dw_dtype abi_dtype(DType dtype) {
  static constexpr dw_dtype kAll[] = {
#define DW_DTYPE(index, name, enumerator, text, code, bits, storage) \
  {code, bits, 1},
#include "distwrap/abi/dtypes.def"
  };
  return kAll[static_cast<size_t>(dtype)];
}

dw_buf buffer(const TensorView& view, const std::vector<int64_t>& counts) {
  dw_buf buf = {};
  buf.data = view.data();
  buf.count = view.count();
  buf.dtype = abi_dtype(view.dtype());
  if (!counts.empty()) buf.counts = counts.data();
  return buf;
}

dw_op blank(uint16_t kind) {
  dw_op op = {};
  op.struct_size = sizeof op;
  op.kind = kind;
  op.flags = DW_FLAG_CALLER_WAITS;
  op.peer = -1;
  return op;
}

// A message there and one back.
std::vector<dw_op> ping_pong(const Case& c) {
  if (c.spec().ranks < 2) return {};
  dw_op send = blank(DW_OP_SEND), recv = blank(DW_OP_RECV);
  send.in = buffer(c.in(), {});
  recv.out = buffer(c.out(), {});
  send.peer = recv.peer = c.partner();
  send.tag = recv.tag = DW_TAG(DW_TAG_CLASS_USER, 0);
  if (c.spec().rank % 2 == 0) return {send, recv};
  return {recv, send};
}

}  // namespace

std::vector<dw_op> TableContestant::ops_of(const Case& c) {
  const Spec& spec = c.spec();
  if (spec.op == Operation::kRing || on_window(spec.op)) return {};
  if (spec.op == Operation::kSendRecv) return ping_pong(c);
  dw_op op = blank(kind_of(spec.op));
  if (spec.op != Operation::kBarrier) {
    op.in = buffer(c.in(), c.layout().in_counts);
    op.out = buffer(c.out(), c.layout().out_counts);
  }
  if (reduces(spec.op)) op.reduce = static_cast<uint16_t>(spec.reduce);
  if (has_root(spec.op)) op.peer = spec.root;
  if (has_counts(spec.op)) op.flags |= DW_FLAG_PER_RANK;
  if (spec.op == Operation::kExscan) op.flags |= DW_FLAG_EXCLUSIVE;
  if (op.in.data == op.out.data && spec.op != Operation::kBarrier) {
    op.flags |= DW_FLAG_IN_PLACE;
  }
  return {op};
}

absl::StatusOr<std::unique_ptr<TableContestant>> TableContestant::make(
    plugin::BackendPtr backend, const Setup& setup) {
  auto opened =
      comm::BackendInstance::open(std::move(backend), kCpu, setup.hints);
  if (!opened.ok()) return opened.status();
  std::unique_ptr<TableContestant> made(
      new TableContestant(setup.name, *std::move(opened)));
  comm::SetupPlan plan;
  plan.group = setup.name;
  plan.uid = std::hash<std::string>()(setup.name);
  plan.rank = setup.rank;
  plan.size = setup.ranks;
  const auto built = comm::build_communicator(
      *made->backend_, *setup.store, plan, Deadline::after(setup.timeout));
  if (!built.ok()) return built.status();
  made->comm_ = *built;
  return made;
}

TableContestant::~TableContestant() {
  if (comm_ != nullptr) backend_->api().comm_destroy(comm_, 0, nullptr);
}

absl::StatusOr<std::unique_ptr<TimedCall>> TableContestant::prepare(Case& c) {
  std::vector<dw_op> ops = ops_of(c);
  if (ops.empty()) return std::unique_ptr<TimedCall>();
  const bool collective = ops.size() == 1;
  const comm::Runner runner =
      backend_->stack().runner(comm_, collective ? comm::kCollectiveOps : 0);
  const auto failed = [](int32_t code, const dw_error& error) {
    const std::string text(error.text, strnlen(error.text, sizeof error.text));
    return code == DW_UNIMPLEMENTED
               ? absl::UnimplementedError(text)
               : absl::InternalError(absl::StrCat(text, ", code ", code));
  };
  if (!collective) {
    return make_call([=]() -> absl::Status {
      dw_error error{};
      for (const dw_op& op : ops) {
        const int32_t code = runner.submit(runner.comm, &op, nullptr, &error);
        if (code != DW_DONE) return failed(code, error);
      }
      return absl::OkStatus();
    });
  }
  uint64_t& seq = seq_;
  return make_call([=, &seq, op = ops[0]]() mutable -> absl::Status {
    dw_error error;
    op.seq = ++seq;
    const int32_t code = runner.submit(runner.comm, &op, nullptr, &error);
    if (code == DW_DONE) [[likely]]
      return absl::OkStatus();
    return failed(code, error);
  });
}

absl::StatusOr<std::unique_ptr<Contestant>> make_table_contestant(
    absl::string_view backend, const Setup& setup) {
  auto table = plugin::Registry({}).find(backend);
  if (!table.ok()) return table.status();
  auto made = TableContestant::make(*std::move(table), setup);
  if (!made.ok()) return made.status();
  return *std::move(made);
}

}  // namespace distwrap::bench
