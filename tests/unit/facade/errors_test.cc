// Errors that a program meets with one rank, each in the words on which callers
// rely. Those of several ranks are in tests/ranks.
#include "distwrap/distwrap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace distwrap {
namespace {

using ::testing::HasSubstr;

// An environment variable that is set while the object lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    EXPECT_EQ(setenv(name, value, 1), 0);
  }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* const name_;
};

void expect_error(const absl::Status& status, Reason reason,
                  const std::vector<std::string>& says = {}) {
  EXPECT_EQ(error_reason(status), reason) << status;
  for (const std::string& text : says)
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

// Checks that init_process_group fails and undoes everything.
void expect_no_start(const InitOptions& options, Reason reason,
                     const std::vector<std::string>& says = {}) {
  const absl::Status status = init_process_group(options).status();
  expect_error(status, reason, says);
  EXPECT_FALSE(is_initialized());
  if (status.ok()) destroy_process_group().IgnoreError();
}

InitOptions alone(const std::string& backend) {
  return {.backend = backend, .rank = 0, .world_size = 1};
}

struct Unregistered {};

TEST(Errors, OfBackendStrings) {
  for (const char* const unknown : {"nope", "cpu:nope"})
    expect_no_start(
        alone(unknown), Reason::kBackendUnknown,
        {"Unknown backend: 'nope'. Known backends are: auto, gloo, hccl"});
  expect_no_start(alone("cuda:0:nccl"), Reason::kBackendFormat,
                  {"Invalid backend format: 'cuda:0:nccl'", "got 2 colons"});
  expect_no_start(alone("cpu:gloo,"), Reason::kBackendFormat, {"got 0 colons"});
  expect_no_start(alone("gpu:nccl"), Reason::kDeviceUnknown, {"'gpu'"});
  expect_no_start(alone("cpu:gloo,cpu:shm"), Reason::kDeviceDuplicate,
                  {"Duplicate device type"});
  expect_no_start({.rank = 0, .world_size = 1, .drop_in = true},
                  Reason::kBackendMissing, {"backend must be specified"});
  // The C++ function gives the same error without a start.
  expect_error(parse_backend("gpu:nccl").status(), Reason::kDeviceUnknown);
  expect_error(parse_backend("").status(), Reason::kBackendMissing,
               {"backend must be specified"});
}

TEST(Errors, OfPlugins) {
  expect_no_start(alone("/no/such/plugin.so"), Reason::kPluginNotFound,
                  {"/no/such/plugin.so"});
  // A program is no plugin.
  char* const program = realpath("/proc/self/exe", nullptr);
  ASSERT_NE(program, nullptr);
  expect_no_start(alone(program), Reason::kPluginRefused);
  std::free(program);
}

TEST(Errors, OfTheStart) {
  expect_no_start({.rank = 0,
                   .world_size = 2,
                   .store = Store::in_memory(),
                   .init_method = "env://"},
                  Reason::kStoreConflict, {"env://"});
  expect_no_start({.rank = 0, .world_size = 2}, Reason::kLaunchMissing,
                  {"InitOptions::store"});
  {
    const Variable folder("DISTWRAP_RUN_DIR", "/proc");
    expect_no_start({.rank = 0,
                     .world_size = 2,
                     .init_method = "file:///a/place",
                     .init_timeout = absl::Seconds(5)},
                    Reason::kRunDirectory, {"/proc"});
  }
  {
    const Variable a("OMPI_COMM_WORLD_RANK", "1"),
        b("OMPI_COMM_WORLD_SIZE", "4"), c("PMI_RANK", "0"), d("PMI_SIZE", "2");
    expect_no_start({}, Reason::kLauncherConflict,
                    {"OMPI_COMM_WORLD_RANK", "PMI_RANK"});
  }
  expect_no_start({.rank = 3, .world_size = 2}, Reason::kInvalidArgument);
}

TEST(Errors, TheSettingDropInIsReadWhereNothingIsGiven) {
  const Variable strict("DISTWRAP_DROP_IN", "1");
  expect_no_start({.rank = 0, .world_size = 1}, Reason::kBackendMissing);
  ASSERT_TRUE(
      init_process_group({.rank = 0, .world_size = 1, .drop_in = false}).ok());
  EXPECT_TRUE(new_group().ok()) << "what is given wins";
  EXPECT_TRUE(destroy_process_group().ok());
  ASSERT_TRUE(init_process_group(alone("loopback")).ok());
  expect_error(new_group().status(), Reason::kNewGroupDisabled,
               {"new_group is not supported", "Use split_group"});
  EXPECT_TRUE(destroy_process_group().ok());
}

TEST(Errors, OfCalls) {
  expect_error(barrier().status(), Reason::kNotInitialized,
               {"barrier called before init_process_group"});
  const auto session = init_process_group(alone("auto"));
  ASSERT_TRUE(session.ok()) << session.status();
  expect_error(init_process_group(alone("auto")).status(),
               Reason::kAlreadyInitialized);
  std::vector<float> x(4), y(4);
  const Peer self = Peer::group(0);

  const auto pending = irecv(TensorView(x), self);
  ASSERT_TRUE(pending.ok()) << pending.status();
  expect_error(pending->wait(absl::Milliseconds(1)), Reason::kWaitExpired,
               {"still running"});
  expect_error(pending->wait_stream({}), Reason::kUnsupported, {"stream"});
  EXPECT_TRUE(send(TensorView(y), self).ok());
  EXPECT_TRUE(pending->wait().ok());

  expect_error(
      all_reduce(TensorView(x), static_cast<ReduceOp::Kind>(77)).status(),
      Reason::kReduceOp, {"Unsupported ReduceOp"});
  expect_error(all_gather_object(Object::of(Unregistered{})).status(),
               Reason::kObjectType);
  expect_error(decode_object("no object at all").status(),
               Reason::kObjectDecode);
  Batch batch;
  ASSERT_TRUE(batch.submit().ok());
  expect_error(batch.submit().status(), Reason::kAlreadySubmitted);
  const Group world = session->world();
  EXPECT_TRUE(destroy_process_group().ok());
  expect_error(barrier({.group = world}).status(), Reason::kGroupClosed,
               {"world"});
}

}  // namespace
}  // namespace distwrap
