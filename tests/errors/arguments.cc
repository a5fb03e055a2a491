// Calls that are refused on one rank, before anything is sent.
#include "distwrap/abi/types.h"
#include "errors/fault.h"

namespace distwrap::faults {
namespace {

using Floats = std::vector<float>;

// A collective with one buffer, by its name.
struct OneBuffer {
  const char* name;
  std::function<absl::Status(TensorView, const OpOptions&)> call;
};

const std::vector<OneBuffer>& collectives() {
  static const auto* const kAll = new std::vector<OneBuffer>{
      {"all_reduce",
       [](TensorView x, const OpOptions& o) {
         return all_reduce(x, ReduceOp::kSum, o).status();
       }},
      {"broadcast",
       [](TensorView x, const OpOptions& o) {
         return broadcast(x, Peer::group(0), o).status();
       }},
      {"reduce", [](TensorView x, const OpOptions& o) {
         return reduce(x, Peer::group(0), ReduceOp::kSum, o).status();
       }}};
  return *kAll;
}

class Refusals {
 public:
  Refusals(Choices& choices, int rank) : choices_(choices), rank_(rank) {}

  void of_buffers() {
    const OneBuffer& null = choices_.of(collectives());
    add("null_buffer", null.call(TensorView(no_floats_, 8), {}),
        Reason::kInvalidArgument, null.name, {"NULL", "8"});
    add("overlapping_buffers",
        all_reduce(TensorView(x_.data() + 2, 8), TensorView(x_.data(), 8),
                   ReduceOp::kSum)
            .status(),
        Reason::kInvalidArgument, "all_reduce", {"overlap", "8"});
    const OneBuffer& huge = choices_.of(collectives());
    add("overflow_of_counts",
        huge.call(TensorView(x_.data(), int64_t{1} << 62), {}),
        Reason::kInvalidArgument, huge.name, {"4611686018427387904"});
    const OneBuffer& negative = choices_.of(collectives());
    add("negative_count", negative.call(TensorView(x_.data(), -5), {}),
        Reason::kInvalidArgument, negative.name, {"-5"});
    const std::vector<int64_t> shape = {2, 2}, strides = {1, 2};
    add("strided_tensor",
        all_reduce(TensorView(x_.data(), shape, strides)).status(),
        Reason::kInvalidArgument, "all_reduce", {"contiguous", "strides"});
    const Floats& constant = x_;
    add("read_only_output",
        broadcast(TensorView(constant.data(), 4), Peer::group(0)).status(),
        Reason::kInvalidArgument, "broadcast", {"read-only"});
    add("counts_that_do_not_fit",
        reduce_scatter_tensor(TensorView(y_.data(), 3),
                              TensorView(x_.data(), 7))
            .status(),
        Reason::kInvalidArgument, "reduce_scatter", {"input 7", "output 3"});
    add("another_device",
        all_reduce(TensorView(x_.data(), 4, DType::kF32, {DW_DEVICE_CUDA, 0}))
            .status(),
        Reason::kNoCommunicator, "all_reduce", {"cuda", "Available: cpu"});
  }

  void of_ranks() {
    const int bad = 2 + choices_.below(50);
    add("root_out_of_range",
        broadcast(TensorView(x_), Peer::group(bad)).status(),
        Reason::kInvalidArgument, "broadcast", {std::to_string(bad), "0..1"});
    add("peer_out_of_range", send(TensorView(x_), Peer::group(bad)),
        Reason::kInvalidArgument, "send", {std::to_string(bad), "0..1"});
    add("rank_not_member",
        broadcast(TensorView(x_), Peer::global(bad)).status(),
        Reason::kRankNotMember, "broadcast", {std::to_string(bad), "0, 1"});
    add("root_missing", broadcast(TensorView(x_), {}).status(),
        Reason::kRootMissing, "broadcast", {"src", "group_src"});
    add("wildcard_receive", recv(TensorView(x_), {}).status(),
        Reason::kWildcard, "recv", {"src"});
    report("root_given_twice", choose_peer(bad, 1, "src").status(),
           {.reason = Reason::kRootBoth,
            .what = {"src " + std::to_string(bad), "group_src 1"},
            .next = "numberings"});
  }

  void of_reductions() {
    add("unknown_reduction",
        all_reduce(TensorView(x_), static_cast<ReduceOp::Kind>(77)).status(),
        Reason::kReduceOp, "all_reduce", {"77"});
    add("bitwise_on_floats",
        all_reduce(TensorView(x_), ReduceOp::kBand).status(),
        Reason::kInvalidArgument, "all_reduce", {"f32", "band"});
  }

  void of_counts() {
    add("splits_of_another_length",
        all_to_all_single(TensorView(y_), TensorView(x_), {2, 3, 3}, {4, 4})
            .status(),
        Reason::kSplitMismatch, "all_to_all", {"2", "3"});
    add("splits_beyond_the_buffer",
        all_to_all_single(TensorView(y_), TensorView(x_), {4, 4}, {4, 400})
            .status(),
        Reason::kSplitMismatch, "all_to_all", {"400", "8"});
    add("negative_split",
        all_gather_v(TensorView(y_), TensorView(x_.data(), 4),
                     std::vector<int64_t>{4, -4})
            .status(),
        Reason::kSplitMismatch, "all_gather", {"-4"});
  }

  void of_options() {
    const OneBuffer& op = choices_.of(collectives());
    add("timeout_not_positive",
        op.call(TensorView(x_), {.timeout = -absl::Seconds(3)}),
        Reason::kInvalidArgument, op.name, {"timeout", "-3s"});
    int device = 0;
    add("stream_without_streams",
        all_reduce(TensorView(x_), ReduceOp::kSum,
                   {.stream = {{DW_DEVICE_CUDA, 0}, &device}})
            .status(),
        Reason::kUnsupported, "all_reduce", {"gloo", "stream"});
    add("negative_tag", send(TensorView(x_), Peer::group(0), -9),
        Reason::kInvalidArgument, "send", {"tag", "-9"});
  }

  void of_batches() {
    const P2POp odd{.kind = static_cast<P2POp::Kind>(9),
                    .tensor = TensorView(x_),
                    .peer = Peer::group(0)};
    add("unknown_p2p", batch_isend_irecv({odd}).status(), Reason::kP2PUnknown,
        "batch_isend_irecv", {"9"}, "kIsend");
    Batch bad;
    bad.all_reduce(TensorView(x_));
    bad.broadcast(TensorView(y_), Peer::group(17));
    add("bad_item_of_a_batch", bad.submit().status(), Reason::kInvalidArgument,
        "broadcast", {"item 1", "17"});
    Batch same;
    same.all_reduce(TensorView(x_));
    same.all_reduce(TensorView(x_));
    report("items_that_overlap", same.submit().status(),
           {.reason = Reason::kInvalidArgument,
            .what = {"items 0 and 1", "same memory"},
            .where = Where{.op = "batch", .group = ""},
            .next = "output"});
    Batch twice;
    twice.submit().IgnoreError();
    report("batch_twice", twice.submit().status(),
           {.reason = Reason::kAlreadySubmitted,
            .what = {"batch"},
            .where = Where{.op = "batch", .group = ""},
            .next = "new Batch"});
  }

 private:
  void add(const std::string& fault, const absl::Status& status, Reason reason,
           const std::string& op, std::vector<std::string> what,
           std::string next = "") {
    report(fault, status,
           {.reason = reason,
            .what = std::move(what),
            .where = Where{.op = op, .rank = rank_},
            .next = std::move(next)});
  }

  Choices& choices_;
  const int rank_;
  float* const no_floats_ = nullptr;
  Floats x_ = Floats(8), y_ = Floats(8);
};

}  // namespace

void of_arguments(Choices& choices) {
  const int wrong = choices.below(2);
  on_ranks(2, {.backend = "gloo"}, [&](const Session& session) {
    if (session.rank() == wrong) {
      Refusals refusals(choices, wrong);
      refusals.of_buffers();
      refusals.of_ranks();
      refusals.of_reductions();
      refusals.of_counts();
      refusals.of_options();
      refusals.of_batches();
    }
    // Nothing was sent, so the group is intact.
    if (const absl::Status after = barrier().status(); !after.ok())
      report("after_refusals", after, {.reason = Reason::kNone});
  });
}

}  // namespace distwrap::faults
