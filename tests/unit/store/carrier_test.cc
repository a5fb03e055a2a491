// Streams of many processes over one connection between hosts.
#include "distwrap/status.h"
#include "heard.h"
#include "store/carried.h"
#include "store/client.h"
#include "store/network_address.h"
#include "store/news_line.h"
#include "store/run_directory.h"
#include "store/socket.h"
#include "store/wire.h"
#include "store_under_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <utility>
#include <vector>

namespace distwrap::store {
namespace {

using ::testing::ElementsAre;

std::string text_of(Carried what, uint32_t stream, absl::string_view bytes) {
  return std::to_string(static_cast<int>(what)) + ":" + std::to_string(stream) +
         ":" + std::string(bytes);
}

TEST(CarriedReader, TakesFramesInPiecesOfAnySize) {
  const std::string all =
      carried(Carried::kOpen, 7) + carried(Carried::kBytes, 7, "some bytes") +
      carried(Carried::kBytes, 8, "") +
      carried(Carried::kBytes, 1u << 31, "x") + carried(Carried::kEnd, 7);
  for (size_t piece = 1; piece <= all.size(); ++piece) {
    CarriedReader reader;
    std::vector<std::string> heard;
    std::string of_seven;
    for (size_t at = 0; at < all.size(); at += piece)
      EXPECT_TRUE(reader.pass(
          absl::string_view(all).substr(at, piece),
          [&](Carried what, uint32_t stream, absl::string_view bytes) {
            if (what == Carried::kBytes && stream == 7)
              of_seven.append(bytes.data(), bytes.size());
            else
              heard.push_back(text_of(what, stream, bytes));
          }));
    EXPECT_EQ(of_seven, "some bytes") << piece;
    EXPECT_THAT(heard, ElementsAre("1:7:", "2:2147483648:x", "3:7:")) << piece;
  }
}

TEST(CarriedReader, CopiesReachEachOfTheirStreams) {
  const std::string all = carried_to({7, 8, 9}, "some bytes") +
                          carried_to({8, 9}, "") +
                          carried(Carried::kBytes, 9, " more");
  for (size_t piece = 1; piece <= all.size(); ++piece) {
    CarriedReader reader;
    std::map<uint32_t, std::string> heard;
    for (size_t at = 0; at < all.size(); at += piece)
      EXPECT_TRUE(reader.pass(
          absl::string_view(all).substr(at, piece),
          [&](Carried what, uint32_t stream, absl::string_view bytes) {
            EXPECT_EQ(what, Carried::kBytes);
            heard[stream].append(bytes.data(), bytes.size());
          }));
    EXPECT_EQ(heard[7], "some bytes") << piece;
    EXPECT_EQ(heard[8], "some bytes") << piece;
    EXPECT_EQ(heard[9], "some bytes more") << piece;
  }
}

TEST(CarriedReader, RefusesWhatIsNoFrame) {
  const auto pass = [](absl::string_view bytes) {
    CarriedReader reader;
    return reader.pass(bytes, [](Carried, uint32_t, absl::string_view) {});
  };
  std::string long_end = carried(Carried::kBytes, 1, "x");
  long_end[0] = static_cast<char>(Carried::kEnd);
  EXPECT_FALSE(pass(long_end));
  for (const uint32_t streams : {0u, 1u, uint32_t{kMostCopies} + 1, ~0u}) {
    std::string copies = carried(Carried::kBytes, streams, "x");
    copies[0] = static_cast<char>(Carried::kCopies);
    EXPECT_FALSE(pass(copies)) << streams;
  }
  EXPECT_FALSE(pass(carried_to({7, 7}, "x")));
  EXPECT_FALSE(pass(carried_to({7, 9, 8}, "x")));
  for (const char what : {'\0', '\5', '\xff'}) {
    std::string unknown = carried(Carried::kOpen, 1);
    unknown[0] = what;
    EXPECT_FALSE(pass(unknown)) << static_cast<int>(what);
  }
}

class CarrierTest : public ::testing::Test {
 protected:
  explicit CarrierTest(const ServerOptions& options = {})
      : store_(std::make_unique<NetworkStore>(options)),
        agent_(store_->make_agent()) {}

  std::shared_ptr<Store> connect() {
    auto client = Store::connect(agent_->address(), soon());
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }

  std::unique_ptr<NetworkStore> store_;
  std::unique_ptr<AgentThread> agent_;
};

TEST_F(CarrierTest, AllProcessesOfAHostShareOneConnection) {
  constexpr size_t kClients = 100;
  std::vector<std::shared_ptr<Store>> clients;
  for (size_t i = 0; i < kClients; ++i) clients.push_back(connect());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kClients; ++i)
    threads.emplace_back([&, i] {
      const std::string next = std::to_string((i + 1) % kClients);
      const std::string value(i * 1000, 'v');
      EXPECT_TRUE(clients[i]->set(std::to_string(i), value, soon()).ok());
      // Some of these wait, all at once.
      EXPECT_EQ(clients[i]->get(next, soon())->size(),
                (i + 1) % kClients * 1000);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(store_->carriers(), 1);
}

// All wait for the same words, as ranks do that meet.
TEST_F(CarrierTest, AnAnswerToAllProcessesOfAHostCrossesOnce) {
  constexpr size_t kClients = 50, kBytes = 100'000, kTlsRecord = 22;
  const auto ask = [](Socket& socket, const Request& request) {
    const std::string frame = encode(request);
    EXPECT_EQ(socket.send(frame, soon()).kind, Io::kDone);
    return frame.size() + carried(Carried::kBytes, 0).size() + kTlsRecord;
  };
  const auto answer = [](Socket& socket) {
    char head[kHeaderBytes] = {};
    EXPECT_EQ(socket.receive(head, sizeof head, soon()).kind, Io::kDone);
    std::string body(decode_header({head, sizeof head}).value_or(0), '\0');
    EXPECT_EQ(socket.receive(body.data(), body.size(), soon()).kind, Io::kDone);
    return decode_reply(body).value_or(Reply{}).texts;
  };
  std::vector<Socket> clients;
  for (size_t i = 0; i < kClients; ++i) {
    auto client =
        Socket::connect(agent_->address().substr(5), {.deadline = soon()});
    ASSERT_TRUE(client.ok()) << client.status();
    clients.push_back(*std::move(client));
    ask(clients.back(), {.op = Op::kSet, .keys = {"hello"}});
    answer(clients.back());
  }
  const NetworkStore::Traffic before = store_->traffic();
  uint64_t asked = 0;
  for (Socket& client : clients)
    asked += ask(client, {.op = Op::kGetAll, .keys = {"word"}});
  const Deadline deadline = soon();
  while (store_->traffic().received - before.received < asked)
    ASSERT_FALSE(deadline.passed());
  // This request arrives behind all the questions.
  ASSERT_TRUE(connect()->set("word", std::string(kBytes, 'w'), soon()).ok());
  for (Socket& client : clients)
    EXPECT_THAT(answer(client), ElementsAre(std::string(kBytes, 'w')));
  EXPECT_LT(store_->traffic().sent - before.sent, 2 * kBytes);
}

TEST_F(CarrierTest, AValueOfTheGreatestSizeComesWhole) {
  std::string value(Store::kMaxValueBytes, '\0');
  for (size_t i = 0; i < value.size(); ++i)
    value[i] = static_cast<char>(i * 31 + i / 4096);
  const auto client = connect();
  ASSERT_TRUE(client->set("k", value, soon()).ok());
  const auto back = client->get("k", soon());
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_TRUE(*back == value);
}

// A process that sends no requests loses its connection, and no other does.
TEST_F(CarrierTest, ABadClientEndsAlone) {
  const auto client = connect();
  auto bad = Socket::connect(agent_->address().substr(5), {.deadline = soon()});
  ASSERT_TRUE(bad.ok()) << bad.status();
  ASSERT_EQ(bad->send("\xff\xff\xff\xff\xff", soon()).kind, Io::kDone);
  char byte = 0;
  EXPECT_EQ(bad->receive(&byte, 1, soon()).kind, Io::kBroken);
  EXPECT_TRUE(client->set("k", "v", soon()).ok());
  EXPECT_EQ(store_->carriers(), 1);
}

std::unique_ptr<NewsLine> line_at(const std::string& address,
                                  const std::string& will, Heard& heard) {
  return line_of(*StorePlace::parse(address), will, heard);
}

TEST_F(CarrierTest, TheEndOfAProcessIsHeard) {
  Heard here, there;
  const auto root = line_at(store_->address(), "lost 0", here);
  auto one = line_at(agent_->address(), "lost 1", there);
  const auto two = line_at(agent_->address(), "lost 2", there);
  one.reset();
  EXPECT_THAT(here.wait_for(1), ElementsAre("lost 1"));
}

// The host of all of them is gone.
TEST_F(CarrierTest, TheEndOfAnAgentIsTheEndOfAllItsProcesses) {
  Heard here, there, too;
  const auto root = line_at(store_->address(), "lost 0", here);
  const auto one = line_at(agent_->address(), "lost 1", there);
  const auto two = line_at(agent_->address(), "lost 2", too);
  agent_.reset();
  EXPECT_THAT(here.wait_for(2),
              ::testing::UnorderedElementsAre("lost 1", "lost 2"));
  EXPECT_EQ(there.wait_for(1).back(), "line lost");
  EXPECT_EQ(too.wait_for(1).back(), "line lost");
}

TEST_F(CarrierTest, TheEndOfTheStoreIsHeardByAllProcesses) {
  Heard there, too;
  const auto one = line_at(agent_->address(), "lost 1", there);
  const auto two = line_at(agent_->address(), "lost 2", too);
  const auto client = connect();
  store_.reset();
  EXPECT_EQ(there.wait_for(1).back(), "line lost");
  EXPECT_EQ(too.wait_for(1).back(), "line lost");
  EXPECT_EQ(error_reason(client->set("k", "v", soon())),
            Reason::kStoreUnreachable);
}

// The system refuses this connection before it is tried.
TEST(CarrierAlone, AStoreThatCannotBeDialledEndsItsClientsAtOnce) {
  const auto directory = RunDirectory::make(base::Environment::of_process());
  ASSERT_TRUE(directory.ok()) << directory.status();
  const AgentThread agent(directory->path() + "/agent",
                          resolve({"255.255.255.255", 29500})->front(), {});
  for (int i = 0; i < 2; ++i) {
    auto client =
        Socket::connect(agent.address().substr(5), {.deadline = soon()});
    ASSERT_TRUE(client.ok()) << client.status();
    char byte = 0;
    EXPECT_EQ(client->receive(&byte, 1, soon()).kind, Io::kBroken);
  }
}

// A job of a thousand ranks has more connections than a process has descriptors
// by default.
TEST_F(CarrierTest, AnAgentCarriesThousandsOfConnections) {
  constexpr int kClients = 1100;
  rlimit files = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  const rlimit before = files;
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, 4 * kClients);
  if (files.rlim_cur < 3 * kClients || setrlimit(RLIMIT_NOFILE, &files) != 0)
    GTEST_SKIP() << "this process may have no more descriptors";
  {
    std::vector<std::shared_ptr<Store>> clients;
    for (int i = 0; i < kClients; ++i) clients.push_back(connect());
    for (const auto& client : clients)
      ASSERT_TRUE(client->add("n", 1, soon()).ok());
    EXPECT_EQ(*clients.front()->add("n", 0, soon()), kClients);
    EXPECT_EQ(store_->carriers(), 1);
    agent_.reset();
  }
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

struct SmallStore : CarrierTest {
  SmallStore() : CarrierTest({.max_connections = 2}) {}
};
TEST_F(SmallStore, RefusesOneProcessWithoutHarmToOthers) {
  const auto one = connect(), two = connect();
  auto more =
      Socket::connect(agent_->address().substr(5), {.deadline = soon()});
  ASSERT_TRUE(more.ok()) << more.status();
  char byte = 0;
  EXPECT_EQ(more->receive(&byte, 1, soon()).kind, Io::kBroken);
  EXPECT_TRUE(one->set("k", "v", soon()).ok());
  EXPECT_EQ(*two->get("k", soon()), "v");
}

}  // namespace
}  // namespace distwrap::store
