// Operations on memory of a device that its engine lacks are composed as far as
// that takes no memory of the host; the engine refuses every such address.
#include "distwrap/abi/types.h"
#include "distwrap/distwrap.h"
#include "ranks/hub_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace distwrap {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr Device kDevice{DW_DEVICE_CUDA, 0};
const InitOptions kOptions{.backend = "cuda:gaps",
                           .timeout = absl::Seconds(60),
                           .init_timeout = absl::Seconds(60)};

template <class T>
struct OnDevice {
  OnDevice(size_t n, T value)
      : values(n, value), range(values.data(), n * sizeof(T)) {}
  TensorView view() {
    return {values.data(), static_cast<int64_t>(values.size()), dtype_of<T>,
            kDevice};
  }
  std::vector<T> values;
  testing::DeviceRange range;
};

absl::Status told(const absl::StatusOr<Work>& work) {
  return work.ok() ? work->wait() : work.status();
}

TEST(DeviceRecipes, WhatTakesNoMemoryOfTheHostIsComposed) {
  testing::run_hub_ranks(3, kOptions, [](Session& session) {
    const auto rank = static_cast<float>(session.rank());
    for (const bool async : {false, true}) {
      const OpOptions o{.group = session.world(), .async = async};
      // By a reduce and a broadcast.
      OnDevice<float> in(7, rank + 1), out(7, -1.0f);
      absl::Status done =
          told(all_reduce(out.view(), in.view(), ReduceOp::kSum, o));
      EXPECT_TRUE(done.ok()) << done;
      EXPECT_THAT(out.values, Each(6.0f));
      EXPECT_THAT(in.values, Each(rank + 1));
      done = told(all_reduce(in.view(), ReduceOp::kMax, o));
      EXPECT_TRUE(done.ok()) << done;
      EXPECT_THAT(in.values, Each(3.0f));
      // As bytes.
      OnDevice<double> one(2, 10.0 + rank), all(6, -1.0);
      done = told(all_gather_into_tensor(all.view(), one.view(), o));
      EXPECT_TRUE(done.ok()) << done;
      EXPECT_THAT(all.values, ElementsAre(10, 10, 11, 11, 12, 12));
      OnDevice<int64_t> word(3, session.rank() == 1 ? 42 : 0);
      done = told(broadcast(word.view(), Peer::group(1), o));
      EXPECT_TRUE(done.ok()) << done;
      EXPECT_THAT(word.values, Each(42));
    }
  });
}

TEST(DeviceRecipes, WhatTakesMemoryOfTheHostIsRefused) {
  testing::run_hub_ranks(2, kOptions, [](Session& session) {
    const OpOptions o{.group = session.world()};
    OnDevice<float> some(4, 1.0f), other(4, 1.0f), more(8, 1.0f);
    const absl::Status refused[] = {
        told(all_reduce(some.view(), ReduceOp::kAvg, o)),
        told(all_to_all_single(other.view(), some.view(), {}, {}, o)),
        told(
            reduce_scatter_tensor(some.view(), more.view(), ReduceOp::kSum, o)),
        told(gather_into_tensor(more.view(), some.view(), Peer::group(0), {},
                                o)),
        send(some.view(), Peer::group(1 - session.rank()), 0, o)};
    for (const absl::Status& status : refused)
      EXPECT_EQ(error_reason(status), Reason::kUnsupported) << status;
    EXPECT_TRUE(told(all_reduce(some.view(), ReduceOp::kSum, o)).ok());
    EXPECT_THAT(some.values, Each(2.0f));
  });
}

}  // namespace
}  // namespace distwrap
