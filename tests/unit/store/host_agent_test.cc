// The process that carries the connections of its host's other processes: what
// they keep when it ends, and who is the next.
#include "store/host_agent.h"

#include "distwrap/status.h"
#include "heard.h"
#include "store/client.h"
#include "store/hosted_store.h"
#include "store/run_directory.h"
#include "store/socket.h"
#include "store/wire.h"
#include "store_under_test.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <signal.h>
#include <stdlib.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace distwrap::store {
namespace {

using ::testing::ElementsAre;

// The variables that tell a child what to do.
constexpr char kPath[] = "HOST_AGENT_PATH", kStore[] = "HOST_AGENT_STORE",
               kWill[] = "HOST_AGENT_WILL", kReady[] = "HOST_AGENT_READY",
               kKey[] = "DISTWRAP_JOB_KEY";

StorePlace place_at(const std::string& store, const std::string& path) {
  StorePlace place = *StorePlace::parse(store);
  place.go_through(std::make_shared<HostAgent>(path, place));
  return place;
}

class HostAgentTest : public ::testing::Test {
 protected:
  ~HostAgentTest() override {
    for (const pid_t child : children_) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  }

  std::string path() const { return directory_.path() + "/agent"; }
  StorePlace place() const { return place_at(store_.address(), path()); }
  std::shared_ptr<Store> connect() const {
    bool hopeless = false;
    auto client = connect_to(place(), soon(), &hopeless);
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }

  // Another process of the host that has a line with this will by the time this
  // returns. A forked child would not do: see hosted_store_test.cc.
  pid_t start(const std::string& will) {
    std::array<int, 2> ready;
    EXPECT_EQ(pipe(ready.data()), 0);
    const std::vector<std::string> own = {
        absl::StrCat(kPath, "=", path()),
        absl::StrCat(kStore, "=", store_.address()),
        absl::StrCat(kWill, "=", will), absl::StrCat(kReady, "=", ready[1]),
        absl::StrCat(kKey, "=", std::string(64, 'a'))};
    std::vector<char*> variables;
    for (const std::string& one : own)
      variables.push_back(const_cast<char*>(one.c_str()));
    for (char** entry = environ; *entry != nullptr; ++entry)
      variables.push_back(*entry);
    variables.push_back(nullptr);
    const pid_t child = fork();
    if (child == 0) {
      execle("/proc/self/exe", "store_test", "--gtest_also_run_disabled_tests",
             "--gtest_filter=HostAgentChild.*", nullptr, variables.data());
      _exit(127);
    }
    children_.push_back(child);
    close(ready[1]);
    char ok = 0;
    EXPECT_EQ(read(ready[0], &ok, 1), 1);
    close(ready[0]);
    return child;
  }

  const NetworkStore store_;
  const RunDirectory directory_ =
      *RunDirectory::make(base::Environment::of_process());
  std::vector<pid_t> children_;
};

// The child of `start`.
TEST(HostAgentChild, DISABLED_HasALine) {
  Heard heard;
  const auto line =
      line_of(place_at(getenv(kStore), getenv(kPath)), getenv(kWill), heard);
  ASSERT_EQ(write(atoi(getenv(kReady)), "1", 1), 1);
  for (;;) pause();
}

TEST_F(HostAgentTest, OneProcessCarriesTheOthersOverOneConnection) {
  const pid_t first = start("lost 1");
  start("lost 2");
  const auto client = connect();
  EXPECT_TRUE(client->set("k", "v", soon()).ok());
  EXPECT_EQ(serving_process(path()), first);
  EXPECT_EQ(store_.carriers(), 1);
}

// Processes that an agent carried keep what they wait for and hear every entry
// once, and only the agent that has ended is lost.
TEST_F(HostAgentTest, OthersOutliveTheAgentsTheyWereCarriedBy) {
  Heard here, root;
  const auto observer =
      line_of(*StorePlace::parse(store_.address()), "lost 0", root);
  const pid_t first = start("lost 1");
  const auto line = line_of(place(), "lost 4", here);
  const auto client = connect();
  std::string got;
  std::thread waits(
      [&] { got = client->get("late", soon()).value_or("none"); });
  const pid_t second = start("lost 2");
  ASSERT_EQ(kill(first, SIGKILL), 0);
  EXPECT_THAT(root.wait_for(1), ElementsAre("lost 1"));
  EXPECT_THAT(here.wait_for(1), ElementsAre("lost 1"));
  EXPECT_EQ(*client->add("n", 1, soon()), 1);
  // Any of the other processes may be the next agent.
  ASSERT_EQ(kill(second, SIGKILL), 0);
  EXPECT_THAT(here.wait_for(2), ElementsAre("lost 1", "lost 2"));
  EXPECT_EQ(*client->add("n", 1, soon()), 2);
  EXPECT_EQ(serving_process(path()), getpid());
  ASSERT_TRUE(client->set("late", "here", soon()).ok());
  waits.join();
  EXPECT_EQ(got, "here");
  EXPECT_THAT(root.wait_for(2), ElementsAre("lost 1", "lost 2"));
}

// A process that is stopped holds nobody else back.
TEST_F(HostAgentTest, OthersGoByThemselvesWhereTheAgentIsStopped) {
  Heard here;
  const pid_t first = start("lost 1");
  const auto line = line_of(place(), "lost 4", here, absl::Seconds(2));
  EXPECT_EQ(store_.carriers(), 1);
  ASSERT_EQ(kill(first, SIGSTOP), 0);
  const Deadline deadline = soon();
  while (store_.carriers() < 2 && !deadline.passed())
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  Heard root;
  const auto observer =
      line_of(*StorePlace::parse(store_.address()), "lost 0", root);
  ASSERT_EQ(kill(first, SIGKILL), 0);
  EXPECT_THAT(root.wait_for(1), ElementsAre("lost 1"));
  EXPECT_THAT(here.wait_for(1), ElementsAre("lost 1"));
}

TEST_F(HostAgentTest, WhyTheStoreIsNotReachedIsSaid) {
  const StorePlace nowhere = place_at("tls://127.0.0.1:1", path());
  bool hopeless = false;
  const auto client =
      connect_to(nowhere, Deadline::after(absl::Milliseconds(50)), &hopeless);
  EXPECT_EQ(error_reason(client.status()), Reason::kStoreUnreachable);
  EXPECT_THAT(std::string(client.status().message()),
              ::testing::HasSubstr("127.0.0.1:1"));
  EXPECT_EQ(serving_process(path()), 0) << "another process may try";
}

// One connection of a process that an agent carries.
class Carried {
 public:
  explicit Carried(const std::string& agent)
      : socket_(*Socket::connect(agent.substr(5), {.deadline = soon()})) {}
  void say(const Request& request) {
    EXPECT_EQ(socket_.send(encode(request), soon()).kind, Io::kDone);
  }
  std::optional<Reply> hear() {
    std::string head(kHeaderBytes, '\0');
    if (socket_.receive(head.data(), head.size(), soon()).kind != Io::kDone)
      return std::nullopt;
    std::string body(*decode_header(head), '\0');
    if (socket_.receive(body.data(), body.size(), soon()).kind != Io::kDone)
      return std::nullopt;
    return decode_reply(body);
  }

 private:
  Socket socket_;
};

Request resume(const std::string& name, int64_t number) {
  return {.op = Op::kResume,
          .timeout_ns = 0,
          .keys = {name},
          .value = name,
          .number = number};
}

TEST(Conversation, AChangeIsMadeOnceThoughItIsAskedForAgain) {
  const NetworkStore store;
  const Request add{.op = Op::kAdd, .keys = {"n"}, .number = 1};
  auto agent = store.make_agent();
  Carried before(agent->address());
  before.say(resume("c", 1));
  for (int64_t sum = 1; sum <= 2; ++sum) {
    before.say(add);
    EXPECT_EQ(before.hear()->number, sum);
  }
  agent.reset();
  agent = store.make_agent();
  Carried client(agent->address());
  client.say(resume("c", 2));
  client.say(add);
  EXPECT_EQ(client.hear()->number, 2) << "the second request, again";
  client.say(add);
  EXPECT_EQ(client.hear()->number, 3);
}

TEST(Conversation, IsNotBegunInItsMiddle) {
  const NetworkStore store;
  const auto agent = store.make_agent();
  Carried client(agent->address());
  client.say(resume("c", 2));
  EXPECT_FALSE(client.hear().has_value());
}

// The end of a client is not that of its agent.
TEST(Conversation, EndsWithItsClient) {
  const NetworkStore store;
  const auto agent = store.make_agent();
  {
    Carried client(agent->address());
    client.say(resume("c", 1));
    client.say(
        {.op = Op::kWill, .timeout_ns = 0, .keys = {"log"}, .value = "w"});
    EXPECT_TRUE(client.hear().has_value());
  }
  Carried other(agent->address());
  other.say({.op = Op::kGetAll, .timeout_ns = -1, .keys = {"log/1"}});
  EXPECT_THAT(other.hear()->texts, ElementsAre("w"));
}

TEST(Conversation, IsKeptForAWhileOnly) {
  const NetworkStore store;
  auto agent = store.make_agent();
  Carried client(agent->address());
  client.say(resume("c", 1));
  client.say({.op = Op::kWill, .timeout_ns = 0, .keys = {"log"}, .value = "w"});
  EXPECT_TRUE(client.hear().has_value());
  agent.reset();
  agent = store.make_agent();
  Carried other(agent->address());
  Request look{.op = Op::kGetAll, .timeout_ns = 0, .keys = {"log/1"}};
  other.say(look);
  EXPECT_EQ(other.hear()->answer, Answer::kTimedOut) << "its client may come";
  look.timeout_ns = -1;
  other.say(look);
  EXPECT_THAT(other.hear()->texts, ElementsAre("w"));
}

}  // namespace
}  // namespace distwrap::store
