// The meeting place of ranks, from given values and from launchers.
#include "store/rendezvous.h"

#include "distwrap/status.h"
#include "store/launch_manager.h"
#include "store/pmi_manager.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <stdlib.h>
#include <string>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace distwrap::store {
namespace {

using base::Environment;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Variables = Environment::Variables;

class RendezvousTest : public ::testing::Test {
 protected:
  RendezvousTest() {
    char path[] = "/tmp/distwrap_test_XXXXXX";
    folder_ = mkdtemp(path);
  }
  ~RendezvousTest() override { std::filesystem::remove_all(folder_); }

  absl::StatusOr<Rendezvous> find(const InitRequest& request,
                                  Variables variables = {}) {
    variables["DISTWRAP_RUN_DIR"] = folder_;
    return find_rendezvous(request, Environment(std::move(variables)));
  }
  void expect_error(const absl::Status& status, Reason reason,
                    const std::string& part) {
    EXPECT_EQ(error_reason(status), reason) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }

  std::string folder_;
};

const Variables& ompi() {
  static const Variables variables = {{"OMPI_COMM_WORLD_RANK", "1"},
                                      {"OMPI_COMM_WORLD_SIZE", "4"},
                                      {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                                      {"PMIX_NAMESPACE", "77"}};
  return variables;
}

TEST_F(RendezvousTest, AForeignLaunchersJobIsHosted) {
  const auto place = find({}, ompi());
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->rank, 1);
  EXPECT_EQ(place->world_size, 4);
  EXPECT_THAT(place->hosted_path, StartsWith(folder_));
  EXPECT_EQ(place->address, "unix:" + place->hosted_path);
  EXPECT_THAT(place->job, StartsWith("ompi-77-"));
  Variables other = ompi();
  other["PMIX_NAMESPACE"] = "78";
  EXPECT_NE(find({}, other)->address, place->address);
}

TEST_F(RendezvousTest, AnAddressIsNotHosted) {
  Variables variables = ompi();
  variables["DISTWRAP_STORE"] = "unix:/x";
  const auto place = find({}, variables);
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->address, "unix:/x");
  EXPECT_EQ(place->hosted_path, "");
}

TEST_F(RendezvousTest, WithoutAnIdentityAnAddressIsAskedFor) {
  Variables variables = ompi();
  variables.erase("PMIX_NAMESPACE");
  expect_error(find({}, variables).status(), Reason::kLaunchMissing,
               "DISTWRAP_JOB_ID");
  variables["DISTWRAP_JOB_ID"] = "mine";
  EXPECT_TRUE(find({}, variables).ok());
  expect_error(find({}, {{"RANK", "0"}, {"WORLD_SIZE", "2"}}).status(),
               Reason::kLaunchMissing, "init_method");
}

TEST_F(RendezvousTest, SeveralHostsThatNobodyNamesAreRefused) {
  Variables variables = ompi();
  variables["OMPI_COMM_WORLD_LOCAL_SIZE"] = "2";
  expect_error(find({}, variables).status(), Reason::kUnsupported,
               "DISTWRAP_STORE=tls://host:port");
}

TEST_F(RendezvousTest, AnotherHostWithoutAKeyIsRefusedAtOnce) {
  for (const std::string place :
       {"192.0.2.1:29500", "[2001:db8::1]:1", "no-such-host.invalid:29500"})
    expect_error(
        find({.rank = 0, .world_size = 2, .init_method = "tcp://" + place})
            .status(),
        Reason::kAuthFailed, place);
  expect_error(find({.rank = 0, .world_size = 2, .init_method = "env://"},
                    {{"MASTER_ADDR", "192.0.2.1"}, {"MASTER_PORT", "29500"}})
                   .status(),
               Reason::kAuthFailed, "192.0.2.1");
  char name[256] = {};
  ASSERT_EQ(gethostname(name, sizeof name - 1), 0);
  for (const std::string& own :
       std::vector<std::string>{"127.0.0.1", "[::1]", "localhost", name})
    EXPECT_TRUE(find({.rank = 0,
                      .world_size = 2,
                      .init_method = "tcp://" + own + ":29500"})
                    .ok())
        << own;
}

TEST_F(RendezvousTest, InitMethods) {
  const auto at = [&](const std::string& method) {
    const auto place =
        find({.rank = 0, .world_size = 2, .init_method = method});
    EXPECT_TRUE(place.ok()) << place.status();
    return place->hosted_path;
  };
  EXPECT_THAT(at("tcp://localhost:29500"), StartsWith(folder_));
  EXPECT_EQ(at("tcp://localhost:29500"), at("tcp://localhost:29500"));
  EXPECT_NE(at("tcp://localhost:29500"), at("tcp://localhost:29501"));
  EXPECT_NE(at("file:///x"), at("file:///y"));
  EXPECT_EQ(at("unix:" + folder_ + "/s"), folder_ + "/s");
  // Too long for a socket: all ranks use the same shorter path.
  const std::string lengthy = "unix:/" + std::string(200, 'x');
  EXPECT_THAT(at(lengthy), StartsWith(folder_));
  EXPECT_EQ(at(lengthy), at(lengthy));

  const auto url =
      find({.init_method = "tcp://localhost:1?rank=1&world_size=3"});
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_EQ(url->rank, 1);
  EXPECT_EQ(url->world_size, 3);
  // Explicit values win; the launcher gives the rest.
  const auto mixed =
      find({.rank = 0, .init_method = "tcp://localhost:1?rank=1"}, ompi());
  ASSERT_TRUE(mixed.ok()) << mixed.status();
  EXPECT_EQ(mixed->rank, 0);
  EXPECT_EQ(mixed->world_size, 4);
}

TEST_F(RendezvousTest, EnvironmentByHand) {
  const InitRequest request{
      .rank = 0, .world_size = 2, .init_method = "env://"};
  EXPECT_TRUE(find(request, {{"MASTER_PORT", "29500"}}).ok());
  expect_error(find(request).status(), Reason::kLaunchMissing, "MASTER_PORT");
}

TEST_F(RendezvousTest, BadRequests) {
  expect_error(find({.init_method = "env://", .has_store = true}).status(),
               Reason::kStoreConflict, "env://");
  expect_error(find({.rank = 2, .world_size = 2}).status(),
               Reason::kInvalidArgument, "rank 2, world size 2");
  expect_error(find({.rank = 0, .world_size = 2}).status(),
               Reason::kLaunchMissing, "init_method");
  expect_error(find({}).status(), Reason::kLaunchMissing, "distwrap run");
}

TEST_F(RendezvousTest, ALoneRankMeetsNobody) {
  const auto place = find({.rank = 0, .world_size = 1});
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->address, "");
}

TEST_F(RendezvousTest, AnIgnoredLauncherIsSaidOnceAJob) {
  Variables variables = ompi();
  variables["DISTWRAP_RANK"] = "0";
  variables["DISTWRAP_WORLD_SIZE"] = "2";
  variables["DISTWRAP_STORE"] = "unix:/x";
  ::testing::internal::CaptureStderr();
  ASSERT_TRUE(find({}, variables).ok());
  std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("rank 0 of 2 is what distwrap run told; Open MPI "
                             "told rank 1 of 4"));
  EXPECT_THAT(log, HasSubstr("DISTWRAP_LAUNCHER"));
  variables["DISTWRAP_RANK"] = "1";
  ::testing::internal::CaptureStderr();
  ASSERT_TRUE(find({}, variables).ok());
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  // A launcher that started the node's launcher is no surprise.
  variables["DISTWRAP_RANK"] = "0";
  variables["OMPI_COMM_WORLD_RANK"] = "0";
  variables["OMPI_COMM_WORLD_SIZE"] = "1";
  variables["OMPI_COMM_WORLD_LOCAL_RANK"] = "0";
  variables["OMPI_COMM_WORLD_LOCAL_SIZE"] = "1";
  ::testing::internal::CaptureStderr();
  ASSERT_TRUE(find({}, variables).ok());
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

// Runs `body` in a child whose end of a socket pair comes from this process, as
// from a process manager.
std::string in_child(const std::function<std::string(int fd)>& body) {
  int ends[2], result[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  EXPECT_EQ(pipe(result), 0);
  const pid_t child = fork();
  if (child == 0) {
    const std::string text = body(ends[0]);
    [[maybe_unused]] const ssize_t n =
        write(result[1], text.data(), text.size());
    _exit(0);
  }
  close(result[1]);
  std::string text(4096, '\0');
  const ssize_t n = read(result[0], text.data(), text.size());
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  waitpid(child, nullptr, 0);
  for (const int fd : {ends[0], ends[1], result[0]}) close(fd);
  return text;
}

TEST(PmiManager, IsTheProcessThatMadeTheSocket) {
  const auto ask = [](int fd) {
    const auto manager = pmi_manager(fd);
    return manager.ok() ? *manager : std::string(manager.status().message());
  };
  const std::string first = in_child(ask), second = in_child(ask);
  EXPECT_THAT(first, StartsWith(absl::StrCat(getpid(), "-")));
  EXPECT_EQ(first, second) << "all ranks are told alike";
}

TEST(PmiManager, NamesTheJobOfItsRanks) {
  const std::string job = in_child([](int fd) {
    const auto info = find_launch(Environment(Variables{
        {"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"PMI_FD", absl::StrCat(fd)}}));
    return info.ok() ? info->job_id : std::string(info.status().message());
  });
  EXPECT_THAT(job, StartsWith(absl::StrCat(getpid(), "-")));
}

TEST(PmiManager, OtherDescriptorsAreNot) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int inet = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  for (const int fd : {ends[0], file, inet, 1 << 20})
    EXPECT_EQ(error_reason(pmi_manager(fd).status()), Reason::kLaunchMissing);
  for (const int fd : {ends[0], ends[1], file, inet}) close(fd);
  const auto info = find_launch(Environment(Variables{
      {"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"PMI_FD", absl::StrCat(file)}}));
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->job_id, "");
  EXPECT_THAT(info->no_job_id, HasSubstr("PMI_FD"));
}

}  // namespace
}  // namespace distwrap::store
