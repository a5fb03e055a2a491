// A store that is reached over the network: who may join, what strangers can
// do, and how failures are named.
#include "distwrap/status.h"
#include "distwrap/store.h"
#include "store/client.h"
#include "store/network_address.h"
#include "store/socket.h"
#include "store_under_test.h"

#include <absl/strings/str_cat.h>
#include <absl/time/clock.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <stdlib.h>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <vector>

namespace distwrap::store {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// An error that needs no waiting; generous, since the machine may be busy.
constexpr absl::Duration kAtOnce = absl::Seconds(10);

absl::Status connect_to_address(const std::string& address) {
  const int64_t start = Deadline::now_ns();
  const absl::Status status =
      Store::connect(address, Deadline::after(absl::Seconds(60))).status();
  EXPECT_LT(absl::Nanoseconds(Deadline::now_ns() - start), kAtOnce) << status;
  return status;
}

void expect_error(const absl::Status& status, Reason reason,
                  const std::string& part) {
  EXPECT_EQ(error_reason(status), reason) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(part));
}

TEST(NetworkStoreTest, AnotherKeyIsRefusedAtOnce) {
  const NetworkStore store;
  NetworkStore::set_key(std::string(64, 'b'));
  expect_error(connect_to_address(store.address()), Reason::kAuthFailed,
               "do not have the same job key");
  NetworkStore::set_key("none");
  expect_error(connect_to_address(store.address()), Reason::kAuthFailed,
               "do not have the same job key");
  NetworkStore::set_key(std::string(64, 'a'));
  EXPECT_TRUE(Store::connect(store.address(), soon()).ok());
}

TEST(NetworkStoreTest, AnotherJobIsRefusedAtOnce) {
  const NetworkStore store;
  bool hopeless = false;
  const auto place = StorePlace::parse(store.address(), "another-job");
  ASSERT_TRUE(place.ok()) << place.status();
  expect_error(connect_to(*place, soon(), &hopeless).status(),
               Reason::kAuthFailed, "different jobs");
}

// One of the ports of a job may belong to another job, which keeps nobody from
// looking on, and one that has the job and another key is the job's own.
TEST(NetworkStoreTest, AmongSeveralPortsAnotherKeyIsRefusedAtOnce) {
  const NetworkStore store;
  const std::string two_ports = absl::StrCat(store.address(), ",1");
  NetworkStore::set_key(std::string(64, 'b'));
  expect_error(connect_to_address(two_ports), Reason::kAuthFailed,
               "do not have the same job key");
  bool hopeless = false;
  const auto other = StorePlace::parse(two_ports, "another-job");
  ASSERT_TRUE(other.ok()) << other.status();
  expect_error(
      connect_to(*other, Deadline::after(absl::Milliseconds(50)), &hopeless)
          .status(),
      Reason::kStoreUnreachable, "and at 1 other port of job another-job");
  NetworkStore::set_key(std::string(64, 'a'));
}

TEST(NetworkStoreTest, AKeyThatIsNotUsableIsNamed) {
  NetworkStore::set_key("abc");
  expect_error(connect_to_address("tls://127.0.0.1:1"), Reason::kAuthFailed,
               "wrong length");
  NetworkStore::set_key(std::string(64, 'a'));
}

TEST(NetworkStoreTest, AbsentIsNamedAtTheDeadline) {
  int port = 0;
  std::string address;
  {
    const NetworkStore store;
    port = store.port();
    address = store.address();
  }
  const absl::Status status =
      Store::connect(address, Deadline::after(absl::Milliseconds(80))).status();
  EXPECT_EQ(error_reason(status), Reason::kStoreUnreachable);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("127.0.0.1:" + std::to_string(port)),
                    HasSubstr("attempt"), HasSubstr("errno 111")));
}

TEST(NetworkStoreTest, APortThatIsTakenIsNamed) {
  NetworkStore store;
  NetworkStore other;
  const absl::Status status =
      const_cast<Server&>(other.server())
          .listen_at({.host = "127.0.0.1", .ports = {store.port()}, .psk = {}});
  expect_error(status, Reason::kStoreUnreachable, "errno 98");
}

Socket raw(const NetworkStore& store) {
  const auto addresses = resolve({"127.0.0.1", store.port()});
  int error = 0;
  auto socket = Socket::connect(addresses->front(), soon(), &error);
  EXPECT_TRUE(socket.ok()) << socket.status();
  return *std::move(socket);
}

// Sends bytes as a stranger; true when the server closes the connection.
bool is_closed(const NetworkStore& store, const std::string& bytes) {
  Socket socket = raw(store);
  if (socket.send(bytes, soon()).kind != Io::kDone) return true;
  char buffer[1024];
  for (;;) {
    size_t size = sizeof buffer;
    const Io io = socket.receive_some(buffer, &size, soon());
    if (io.kind == Io::kTimedOut) return false;
    if (io.kind == Io::kBroken) return true;
  }
}

TEST(NetworkStoreTest, StrangersAreClosedAndHarmNobody) {
  const NetworkStore store({.handshake = absl::Milliseconds(300)});
  const auto client = Store::connect(store.address(), soon());
  ASSERT_TRUE(client.ok()) << client.status();
  std::mt19937 random(5);
  const auto noise = [&random] {
    std::string bytes(1 + random() % 600, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    return bytes;
  };
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(is_closed(store, noise())) << i;
  // Most of them do not wait for an answer. The job works meanwhile.
  for (int i = 0; i < 10'000; ++i) {
    Socket stranger = raw(store);
    stranger.send(noise(), soon());
    if (i % 1000 == 0) {
      EXPECT_TRUE((*client)->set("k", "v", soon()).ok());
    }
  }
  // A record that says how it goes on, and never does; one that is too long; a
  // plain request of the protocol; nothing at all.
  const std::string head("\x16\x03\x01\x02\x00", 5);
  EXPECT_TRUE(is_closed(store, head + "x"));
  EXPECT_TRUE(is_closed(store, std::string("\x16\x03\x01\x40\x00", 5)));
  EXPECT_TRUE(is_closed(store, head + "dw1:" + std::string(508, 'x')));
  EXPECT_TRUE(is_closed(store, std::string("\x05\x00\x00\x00\x01", 5)));
  EXPECT_TRUE(is_closed(store, "\x16"));
  EXPECT_TRUE((*client)->set("k", "v", soon()).ok());
  EXPECT_TRUE(Store::connect(store.address(), soon()).ok());
}

// Silent strangers fill all places: the job still gets in, since the oldest of
// them leaves for it.
TEST(NetworkStoreTest, SilentStrangersKeepNobodyOut) {
  // This process has both ends of their connections.
  constexpr int kSilent = 1000;
  rlimit files = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, 3 * kSilent);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  const NetworkStore store({.max_strangers = 50});
  std::vector<Socket> silent;
  for (int i = 0; i < kSilent; ++i) silent.push_back(raw(store));
  const auto client = Store::connect(store.address(), soon());
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_TRUE((*client)->set("k", "v", soon()).ok());
  const Deadline deadline = soon();
  while (store.server().connections() > 52 && !deadline.passed())
    absl::SleepFor(absl::Milliseconds(5));
  EXPECT_LE(store.server().connections(), 52u);
  EXPECT_GE(store.server().turned_away(), kSilent - 52u);
}

// Ranks ask for the keys of all ranks by one name.
TEST(NetworkStoreTest, TheKeysOfManyRanksAreAskedForByOneName) {
  const NetworkStore network;
  const auto store = Store::connect(network.address(), soon());
  ASSERT_TRUE(store.ok()) << store.status();
  std::vector<std::string> keys;
  for (int rank = 0; rank < 1000; ++rank) {
    keys.push_back("session/1/hello/" + std::to_string(rank));
    ASSERT_TRUE((*store)->set(keys.back(), "", soon()).ok());
  }
  const uint64_t before = network.traffic().received;
  EXPECT_TRUE((*store)->wait(keys, soon()).ok());
  EXPECT_LT(network.traffic().received - before, 200u);
}

TEST(NetworkStoreTest, ManyThreadsUseOneStore) {
  const NetworkStore store;
  const auto client = Store::connect(store.address(), soon());
  ASSERT_TRUE(client.ok()) << client.status();
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      for (int n = 0; n < 20; ++n) {
        const std::string key = std::to_string(i * 100 + n);
        EXPECT_TRUE((*client)->set(key, std::string(5000, 'v'), soon()).ok());
        EXPECT_EQ((*client)->get(key, soon())->size(), 5000u);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace distwrap::store
