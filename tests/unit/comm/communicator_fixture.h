// A communicator on the fake backend, with a store and a watchdog of its own.
#ifndef DISTWRAP_TESTS_UNIT_COMM_COMMUNICATOR_FIXTURE_H_
#define DISTWRAP_TESTS_UNIT_COMM_COMMUNICATOR_FIXTURE_H_

#include "comm/communicator.h"
#include "comm/setup.h"
#include "unit/comm/fake_backend.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

namespace distwrap::comm {

inline void set_error(dw_error* error, uint16_t reason, int32_t peer,
                      const char* text) {
  error->reason = reason;
  error->peer = peer;
  error->native = 0;
  std::snprintf(error->text, sizeof error->text, "%s", text);
}

class CommunicatorTest : public ::testing::Test {
 protected:
  explicit CommunicatorTest(uint32_t flags = 0) : fake_(flags) {}

  void start(absl::Duration timeout = absl::Seconds(60), Device device = kCpu,
             std::shared_ptr<GroupBoard> group_board = nullptr,
             const RecordedAs& recorded = {}) {
    backend_ = fake_.open(device);
    const absl::StatusOr<dw_comm*> comm = build_communicator(
        *backend_, *store_, {.group = "g"}, Deadline::after(absl::Seconds(10)));
    ASSERT_TRUE(comm.ok()) << comm.status();
    built_ = *comm;
    Identity identity{"g", 0, 4, timeout};
    identity.recorded = recorded;
    comm_ = BackendCommunicator::make(std::move(identity), backend_, *comm,
                                      FirstFailure(store_, "failure"),
                                      watchdog_, std::move(group_board));
  }
  Communicator& comm() { return *comm_; }
  // The session's thread calls the functions of `fake_` until all of this has
  // ended. Those of a derived test use members that its destructor ends.
  void TearDown() override {
    comm_.reset();
    backend_.reset();
    watchdog_.reset();
  }
  // As if it were memory of the backend's device.
  TensorView view(std::vector<float>& values) const {
    return TensorView(values.data(), static_cast<int64_t>(values.size()),
                      DType::kF32, backend_->device());
  }
  absl::StatusOr<Work> call(const CallOptions& options = {}) {
    return comm_->all_reduce(view(x_), view(x_), ReduceOp::kSum, options);
  }

  FakeBackend fake_;
  std::shared_ptr<Watchdog> watchdog_ = *Watchdog::make();
  std::shared_ptr<Store> store_ = Store::in_memory();
  std::shared_ptr<BackendInstance> backend_;
  dw_comm* built_ = nullptr;
  BackendCommunicator::Ptr comm_;
  std::vector<float> x_ = std::vector<float>(8), y_ = std::vector<float>(8);
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_TESTS_UNIT_COMM_COMMUNICATOR_FIXTURE_H_
