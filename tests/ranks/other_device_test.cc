// Memory of cuda:1 given to a communicator of cuda:0, from C++ and C: the call
// is refused before anything is sent, and the group goes on.
#include "distwrap/c.h"
#include "distwrap/distwrap.h"
#include "ranks/hub_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace distwrap {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr int kRanks = 2;
constexpr Device kFirst{DW_DEVICE_CUDA, 0}, kSecond{DW_DEVICE_CUDA, 1};
const InitOptions kOptions{.backend = "cpu:messages,cuda:faux",
                           .timeout = absl::Seconds(60),
                           .init_timeout = absl::Seconds(60),
                           .device_id = 0};

// Memory of the host that claims to lie on a device.
struct Elements {
  explicit Elements(Device where) : device(where) {}
  TensorView view(int64_t count = 8) {
    return {values.data(), count, DType::kF32, device};
  }
  Device device;
  std::vector<float> values = std::vector<float>(8, 3.0f);
};

absl::Status told(const absl::StatusOr<Work>& work) {
  return work.ok() ? work->wait() : work.status();
}

void expect_refused(const absl::Status& status) {
  EXPECT_EQ(error_reason(status), Reason::kInvalidArgument) << status;
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("not in memory of the device that this communicator serves"));
}

TEST(MemoryOfAnotherDevice, IsRefusedByEveryCall) {
  testing::run_hub_ranks(kRanks, kOptions, [](Session& session) {
    const Peer peer = Peer::group(1 - session.rank());
    const Peer root = Peer::group(0);
    for (const bool async : {false, true}) {
      const OpOptions o{.group = session.world(), .async = async};
      Elements here(kFirst), there(kSecond);
      const TensorView first = here.view(), second = there.view();
      const std::function<absl::Status()> calls[] = {
          [&] { return told(all_reduce(second, ReduceOp::kSum, o)); },
          [&] {
            return told(all_reduce(second, ReduceOp::premul_sum(2.0), o));
          },
          [&] { return told(broadcast(second, root, o)); },
          [&] { return told(reduce(second, root, ReduceOp::kMax, o)); },
          [&] { return told(all_gather_into_tensor(first, there.view(4), o)); },
          [&] { return told(all_gather_into_tensor(second, here.view(4), o)); },
          [&] {
            return told(
                reduce_scatter_tensor(here.view(4), second, ReduceOp::kSum, o));
          },
          [&] { return told(all_to_all_single(first, second, {}, {}, o)); },
          [&] { return told(all_to_all_single(second, first, {}, {}, o)); },
          [&] {
            const TensorView parts[] = {here.view(4), there.view(4)};
            return told(all_gather(parts, here.view(4), o));
          },
          [&] {
            return async ? told(isend(second, peer, 1, o))
                         : send(second, peer, 1, o);
          },
          [&] {
            return async ? told(irecv(second, peer, 1, o))
                         : recv(second, peer, 1, o).status();
          },
          [&] {
            Batch batch;
            batch.send(first, peer, 1, o);
            batch.recv(second, peer, 1, o);
            return told(batch.submit());
          },
      };
      for (size_t i = 0; i < std::size(calls); ++i) {
        SCOPED_TRACE(i);
        expect_refused(calls[i]());
      }
      EXPECT_THAT(here.values, Each(3.0f));
      EXPECT_THAT(there.values, Each(3.0f));
      // Nothing was sent, and the group is whole.
      ASSERT_TRUE(told(all_reduce(first, ReduceOp::kSum, o)).ok());
      EXPECT_THAT(here.values, Each(6.0f));
    }
  });
}

// The host's communicator composes all its operations; it looks at the device
// before that.
TEST(MemoryOfAnotherDevice, IsRefusedWhereOperationsAreComposed) {
  testing::run_hub_ranks(kRanks, kOptions, [](Session& session) {
    const auto communicator = session.world().communicator(kCpu);
    ASSERT_TRUE(communicator.ok()) << communicator.status();
    Communicator& composed = **communicator;
    ASSERT_EQ(composed.backend(), "messages");
    Elements here(kCpu);
    for (const Device device : {kFirst, kSecond, Device{DW_DEVICE_CPU, 1}}) {
      Elements there(device);
      const TensorView first = here.view(), second = there.view();
      expect_refused(told(composed.all_reduce(second, second, ReduceOp::kSum)));
      expect_refused(told(composed.all_reduce(first, second, ReduceOp::kSum)));
      expect_refused(told(composed.broadcast(second, first, 0)));
      expect_refused(told(composed.all_to_all(first, second)));
      expect_refused(told(composed.send(second, 1 - session.rank())));
      EXPECT_THAT(there.values, Each(3.0f));
    }
    EXPECT_THAT(here.values, Each(3.0f));
    ASSERT_TRUE(
        told(composed.all_reduce(here.view(), here.view(), ReduceOp::kSum))
            .ok());
    EXPECT_THAT(here.values, Each(6.0f));
  });
}

TEST(MemoryOfAnotherDevice, IsRefusedInC) {
  testing::run_hub_ranks(kRanks, kOptions, [](Session&) {
    float x[4] = {1, 2, 3, 4};
    int64_t count = 4;
    distwrap_tensor tensor = {};
    tensor.data = x;
    tensor.ndim = 1;
    tensor.dtype = distwrap_dtype(DW_DTYPE_F32);
    tensor.shape = &count;
    const distwrap_peer root = {DW_RANK_OF_GROUP, 0};
    tensor.device = {DW_DEVICE_CUDA, 1};
    distwrap_error error = nullptr;
    for (const int32_t code :
         {distwrap_all_reduce(&tensor, &tensor, DW_REDUCE_SUM, nullptr, nullptr,
                              &error),
          distwrap_broadcast(&tensor, &tensor, root, nullptr, nullptr,
                             nullptr)})
      EXPECT_EQ(code, DW_INVALID_ARGUMENT);
    EXPECT_THAT(distwrap_error_text(error),
                AllOf(HasSubstr("all_reduce"), HasSubstr("this communicator")));
    EXPECT_EQ(distwrap_error_free(error), DW_OK);
    EXPECT_THAT(x, ::testing::ElementsAre(1, 2, 3, 4));
    tensor.device = {DW_DEVICE_CUDA, 0};
    EXPECT_EQ(distwrap_all_reduce(&tensor, &tensor, DW_REDUCE_SUM, nullptr,
                                  nullptr, nullptr),
              DW_OK);
    EXPECT_THAT(x, ::testing::ElementsAre(2, 4, 6, 8));
  });
}

}  // namespace
}  // namespace distwrap
