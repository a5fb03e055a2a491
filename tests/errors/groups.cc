// Ranks, as threads, that make different calls or do not come.
#include "errors/fault.h"

#include <absl/synchronization/notification.h>

#include <unistd.h>

namespace distwrap::faults {
namespace {

constexpr int kRanks = 3;
constexpr absl::Duration kSoon = absl::Milliseconds(400);

using Floats = std::vector<float>;

// A call, and another one that does not match it.
struct Pair {
  const char* name;
  std::string right, wrong;  // the calls as errors show them
  std::function<absl::Status()> call, other;
  const char* next = "same order";
};

absl::Status reduced(int64_t count, ReduceOp op = ReduceOp::kSum,
                     DType dtype = DType::kF32) {
  std::vector<double> x(static_cast<size_t>(count));
  return all_reduce(TensorView(x.data(), count, dtype), op).status();
}

absl::Status from(int root) {
  Floats x(16);
  return broadcast(TensorView(x), Peer::group(root)).status();
}

absl::Status gathered(const std::vector<int64_t>& counts) {
  Floats all(12),
      own(static_cast<size_t>(counts[static_cast<size_t>(get_rank())]));
  return all_gather_v(TensorView(all), TensorView(own), counts).status();
}

std::vector<Pair> pairs() {
  return {
      {"mismatch_of_operations", "all_reduce f32 x 64 sum", "barrier",
       [] { return reduced(64); }, [] { return barrier().status(); }},
      {"mismatch_of_dtypes", "all_reduce f32 x 64 sum",
       "all_reduce i32 x 64 sum", [] { return reduced(64); },
       [] { return reduced(64, ReduceOp::kSum, DType::kI32); }},
      {"mismatch_of_counts", "all_reduce f32 x 64 sum",
       "all_reduce f32 x 48 sum", [] { return reduced(64); },
       [] { return reduced(48); }},
      {"mismatch_of_reductions", "all_reduce f32 x 64 sum",
       "all_reduce f32 x 64 max", [] { return reduced(64); },
       [] { return reduced(64, ReduceOp::kMax); }},
      {"mismatch_of_roots", "broadcast f32 x 16 from rank 0",
       "broadcast f32 x 16 from rank 1", [] { return from(0); },
       [] { return from(1); }},
      {"mismatch_of_splits", "all_gather f32 with counts", "counts per rank",
       [] {
         return gathered({4, 4, 4});
       },
       [] {
         return gathered({4, 2, 6});
       },
       "list of counts"},
      {"mismatch_of_order", "all_reduce f32 x 64 sum", "barrier",
       [] {
         const absl::Status status = reduced(64);
         return status.ok() ? barrier().status() : status;
       },
       [] {
         const absl::Status status = barrier().status();
         return status.ok() ? reduced(64) : status;
       }},
  };
}

// The error of a call, or of the next one when the backend let the first pass.
absl::Status until_it_fails(const std::function<absl::Status()>& call) {
  absl::Status status = call();
  while (status.ok()) status = barrier().status();
  return status;
}

void mismatch(const Pair& pair, int wrong) {
  on_ranks(
      kRanks, {.backend = "gloo", .timeout = absl::Seconds(30)},
      [&](const Session& session) {
        const int me = session.rank();
        const absl::Status status =
            until_it_fails(me == wrong ? pair.other : pair.call);
        const std::string rank = std::to_string(wrong);
        report(pair.name, status,
               {.reason = Reason::kCallMismatch,
                .what = {pair.right, pair.wrong, "(rank " + rank + ")"},
                .where = Where{.op = std::string(error_info(status)->op),
                               .rank = me,
                               .numbered = true},
                .who = Who{.ranks = {wrong}, .pids = {getpid()}, .seen = true},
                .next = pair.next});
      });
}

void pair_that_disagrees(Choices& choices) {
  const int wrong = choices.below(kRanks), to = (wrong + 1) % kRanks;
  on_ranks(
      kRanks, {.backend = "gloo", .timeout = absl::Seconds(30)},
      [&](const Session& session) {
        const int me = session.rank();
        std::vector<int64_t> out(kRanks, 2), in(kRanks, 2);
        if (me == wrong) in[static_cast<size_t>(to)] = 1;
        Floats received(6), sent(me == wrong ? 5 : 6);
        const absl::Status status = until_it_fails([&] {
          return all_to_all_single(TensorView(received), TensorView(sent), out,
                                   in)
              .status();
        });
        report(
            "pair_that_disagrees_on_its_count", status,
            {.reason = Reason::kCallMismatch,
             .what = {"2 elements of rank " + std::to_string(wrong),
                      "1 element to rank " + std::to_string(to)},
             .where = Where{.op = "all_to_all", .rank = me, .numbered = true},
             .who = Who{.ranks = {std::min(wrong, to), std::max(wrong, to)},
                        .pids = {getpid()},
                        .seen = true},
             .next = "counts"});
      });
}

void of_splits(Choices& choices) {
  const int wrong = choices.below(kRanks);
  on_ranks(kRanks, {.backend = "gloo"}, [&](const Session& session) {
    SplitOptions options{.split_ranks = {{0, 1}, {2}}};
    if (session.rank() == wrong) options.split_ranks = {{0}, {1, 2}};
    const absl::Status status = split_group(options).status();
    Expected expected{
        .reason = Reason::kCallMismatch,
        .what = {"[[0, 1], [2]]", "[[0], [1, 2]]"},
        .where = Where{.op = "split_group", .rank = session.rank()},
        .who = Who{.ranks = error_info(status)->ranks},
        .next = "equal arguments"};
    report("splits_that_differ", status, expected);
    const absl::Status other =
        session.rank() == wrong
            ? new_group().status()
            : split_group({.split_ranks = {{0, 1, 2}}}).status();
    expected.what = {"new_group", "split_group"};
    expected.where->op = session.rank() == wrong ? "new_group" : "split_group";
    expected.who = Who{.ranks = error_info(other)->ranks};
    report("split_against_new_group", other, expected);
  });
}

}  // namespace

void of_mismatches(Choices& choices) {
  for (const Pair& pair : pairs()) mismatch(pair, choices.below(2) + 1);
  pair_that_disagrees(choices);
  of_splits(choices);
}

void of_absence(Choices& choices) {
  const int missing = choices.below(kRanks);
  const bool async = choices.below(2) == 1;
  absl::Notification over[kRanks];
  const auto wait_for_others = [&] {
    for (int rank = 0; rank < kRanks; ++rank)
      if (rank != missing) over[rank].WaitForNotification();
  };
  on_ranks(kRanks, {.backend = "gloo"}, [&](const Session& session) {
    const int me = session.rank();
    barrier({.label = "before"}).IgnoreError();
    if (me == missing) return wait_for_others();
    float x[4] = {};
    const OpOptions o{.async = async, .timeout = kSoon, .label = "gradients"};
    const absl::StatusOr<Work> work =
        all_reduce(TensorView(x, 4), ReduceOp::kSum, o);
    const absl::Status status = work.ok() ? work->wait() : work.status();
    const bool first = error_reason(status) == Reason::kTimedOut;
    report(
        "missing_rank", status,
        {.reason = first ? Reason::kTimedOut : Reason::kAborted,
         .what = {"gradients", "before", first ? "in time" : "failed first"},
         .where = Where{.op = "all_reduce", .rank = me, .numbered = true},
         .who = Who{.ranks = {missing}, .pids = {getpid()}, .seen = true},
         .how_long = first ? std::optional(HowLong{kSoon, "DISTWRAP_TIMEOUT"})
                           : std::nullopt,
         .next = "rank"});
    report("after_a_failure", barrier().status(),
           {.reason = Reason::kGroupBroken,
            .what = {"earlier failure", "all_reduce", "gradients"},
            .where = Where{.op = "barrier", .rank = me},
            .who = Who{.ranks = {missing}},
            .next = "close the session"});
    over[me].Notify();
  });
  absl::Notification received, aborted;
  on_ranks(2, {.backend = "gloo"}, [&](const Session& session) {
    const int me = session.rank();
    if (me == missing % 2) {
      received.WaitForNotification();
      return;
    }
    float x[4] = {};
    report("message_that_never_comes",
           recv(TensorView(x, 4), Peer::group(1 - me), 7, {.timeout = kSoon})
               .status(),
           {.reason = Reason::kTimedOut,
            .what = {"other rank"},
            .where = Where{.op = "recv", .rank = me},
            .who = Who{.ranks = {1 - me}, .pids = {getpid()}, .seen = true},
            .how_long = HowLong{kSoon, "DISTWRAP_TIMEOUT"},
            .next = "rank"});
    received.Notify();
  });
  on_ranks(kRanks, {.backend = "gloo"}, [&](const Session& session) {
    const int me = session.rank();
    if (me == missing) return;
    report("missing_from_a_monitored_barrier",
           monitored_barrier({.timeout = kSoon}).status(),
           {.reason = Reason::kTimedOut,
            .what = {"1 of 3 ranks"},
            .where = Where{.op = "monitored_barrier", .rank = me},
            .who = Who{.ranks = {missing}},
            .how_long = HowLong{kSoon, "DISTWRAP_TIMEOUT"},
            .next = "ranks"});
  });
  on_ranks(
      kRanks, {.backend = "gloo", .init_timeout = absl::Seconds(2)},
      [&](const Session& session) {
        const int me = session.rank();
        if (me == missing) return;
        report("missing_from_a_split",
               split_group({.split_ranks = {{0, 1, 2}}}).status(),
               {.reason = Reason::kTimedOut,
                .what = {"not all ranks"},
                .where = Where{.op = "split_group", .rank = me},
                .who = Who{.ranks = {missing}},
                .how_long = HowLong{absl::Seconds(2), "DISTWRAP_INIT_TIMEOUT"},
                .next = "all ranks"});
      });
  // Another rank ends the group on purpose while this one waits.
  const int waiting = missing == 0 ? 1 : 0;
  absl::Notification inside;
  on_ranks(2, {.backend = "gloo"}, [&](const Session& session) {
    const int me = session.rank();
    float x[4] = {};
    if (me != waiting) {
      inside.WaitForNotification();
      abort().IgnoreError();
      aborted.WaitForNotification();
      return;
    }
    const absl::StatusOr<Work> work =
        all_reduce(TensorView(x, 4), ReduceOp::kSum, {.async = true});
    inside.Notify();
    report("aborted_by_another_rank", work->wait(),
           {.reason = Reason::kAborted,
            .what = {"abort"},
            .where = Where{.op = "all_reduce", .rank = me, .numbered = true},
            .who = Who{.ranks = {1 - me}},
            .next = "rank"});
    aborted.Notify();
  });
}

}  // namespace distwrap::faults
