// Calls whose sizes the host reads, in a group that has a device with streams:
// a stream is refused, on all ranks, and nothing is moved.
#include "distwrap/alltoallv_op.h"
#include "distwrap/moe_dynamic.h"
#include "distwrap/moe_raw.h"
#include "fakes/streams.h"
#include "ranks/hub_ranks.h"
#include "ranks/moe_ranks.h"

#include <functional>

namespace distwrap::testing {
namespace {

using Ints = std::vector<int32_t>;
using Longs = std::vector<int64_t>;
constexpr int32_t kKept = -7;

const InitOptions kOptions{.backend = "cpu:perfect,cuda:streams",
                           .timeout = absl::Seconds(60),
                           .init_timeout = absl::Seconds(60)};

void run(const std::function<void(int me)>& body) {
  run_hub_ranks(2, kOptions, [&](Session& session) { body(session.rank()); });
}

void expect_unsupported(const absl::Status& status, const std::string& what) {
  EXPECT_EQ(error_reason(status), Reason::kUnsupported)
      << what << ": " << status;
}

// Ranks tell each other of a stream that one of them gave, as of every fault.
TEST(MoeStreams, RawFormsAreRefusedOnAllRanks) {
  for (const bool on_both : {true, false})
    run([on_both](int me) {
      fakes::FakeStream stream;
      const Ints ids = {0, 1, 0, 1};  // (R,T,K): both tokens want both experts
      const int64_t shape[] = {2, 1, 2};
      const auto maps = dedup_maps(TensorView(ids.data(), shape), 1, 1, me);
      const auto request = alltoallv_dedup_init(1, 1, 2, 1, DType::kI32, 1);
      ASSERT_TRUE(maps.ok() && request.ok()) << request.status();
      Ints x = {10 * me, 10 * me + 1}, out(2, kKept), tokens(2, kKept);
      Ints slabs(4, 3);
      std::vector<Ints> each(2, Ints(2, kKept));
      Longs ones = {1, 1}, gathered = {1, 1, 1, 1}, chunks = {0, 1},
            back = {me, 2 + me}, got(2), got_all(4);
      const TensorView token(x.data(), 1), in(x), to(out);
      const TensorView ins[] = {TensorView(x.data(), 1),
                                TensorView(x.data() + 1, 1)};
      const TensorView outs[] = {TensorView(each[0]), TensorView(each[1])};
      const TensorView send(maps->send), forward(maps->forward),
          recv(maps->recv);
      struct Form {
        const char* name;
        std::function<absl::StatusOr<Work>(const OpOptions&)> call;
      };
      const Form forms[] = {
          {"dynamic",
           [&](const OpOptions& how) {
             return alltoallv_dynamic(outs, TensorView(got), ins,
                                      TensorView(ones), how);
           }},
          {"dynamic_split",
           [&](const OpOptions& how) {
             return alltoallv_dynamic_split(outs, TensorView(got), in,
                                            TensorView(ones), how);
           }},
          {"single",
           [&](const OpOptions& how) {
             return device_alltoallv_single(to, in, TensorView(ones),
                                            TensorView(ones), {}, how);
           }},
          {"dispatch",
           [&](const OpOptions& how) {
             return alltoallv_dynamic_dispatch(
                 outs, TensorView(got_all), in, TensorView(ones),
                 TensorView(chunks), TensorView(ones), 1, how);
           }},
          {"combine",
           [&](const OpOptions& how) {
             return alltoallv_dynamic_combine(
                 to, TensorView(slabs), TensorView(gathered), TensorView(back),
                 TensorView(ones), 1, how);
           }},
          {"dedup_exec",
           [&](const OpOptions& how) {
             return alltoallv_dedup_exec(to, TensorView(tokens), token, send,
                                         forward, recv, *request, how);
           }},
          {"dedup_combine",
           [&](const OpOptions& how) {
             return alltoallv_dedup_combine(TensorView(out.data(), 1), in, send,
                                            forward, recv, *request, {}, how);
           }},
      };
      for (const Form& form : forms) {
        OpOptions how;
        if (on_both || me == 1) how.stream = stream.handle();
        const absl::StatusOr<Work> work = form.call(how);
        expect_unsupported(work.status(), form.name);
        EXPECT_EQ(out, Ints(2, kKept)) << form.name;
        EXPECT_EQ(each, std::vector<Ints>(2, Ints(2, kKept))) << form.name;
      }
      // The group goes on.
      for (const Form& form : forms) {
        const absl::StatusOr<Work> work = form.call({});
        EXPECT_TRUE(work.ok()) << form.name << ": " << work.status();
      }
    });
}

// Calls with a plan, and the prepared exchange, send nothing.
TEST(MoeStreams, PlansAreRefusedBeforeAnythingIsSent) {
  run([](int me) {
    fakes::FakeStream stream;
    OpOptions how;
    how.stream = stream.handle();
    Routed<int32_t> all{1, {{0, 1}, {1, 0}}};
    expect_unsupported(all.plan(me, {.num_experts = 2}, how).status(), "plan");
    const MoePlan plan = good(all.plan(me, {.num_experts = 2}));
    Floats x(2), rows(2), out(2);
    expect_unsupported(
        moe_dispatch(plan, TensorView(x), TensorView(rows), {}, how).status(),
        "dispatch");
    expect_unsupported(
        moe_combine(plan, TensorView(rows), TensorView(out), {}, how).status(),
        "combine");
    finish(moe_dispatch(plan, TensorView(x), TensorView(rows)));
    AllToAllVOp op({}, 64, 32);
    ASSERT_TRUE(op.setup().ok());
    const Longs ones = {1, 1};
    expect_unsupported(op.alltoallv(TensorView(x), ones, ones, how).status(),
                       "prepared");
    EXPECT_TRUE(op.alltoallv(TensorView(x), ones, ones).ok());
    EXPECT_TRUE(op.close().ok());
  });
}

}  // namespace
}  // namespace distwrap::testing
