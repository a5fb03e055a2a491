// Tests that only a store behind a socket needs: it is absent, dies, refuses,
// or gets garbage.
#include "store/server.h"

#include "base/log.h"
#include "distwrap/abi/note.h"
#include "distwrap/status.h"
#include "distwrap/store.h"
#include "store/client.h"
#include "store/run_directory.h"
#include "store/server_thread.h"
#include "store/socket.h"
#include "store/store_place.h"
#include "store/wire.h"
#include "store_under_test.h"

#include <absl/strings/str_cat.h>
#include <absl/time/clock.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <random>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace distwrap::store {
namespace {

using ::testing::HasSubstr;

class SocketStore : public ::testing::Test {
 protected:
  SocketStore() {
    auto made = RunDirectory::make(base::Environment::of_process());
    EXPECT_TRUE(made.ok()) << made.status();
    directory_.emplace(*std::move(made));
    path_ = directory_->path() + "/store";
  }

  void start(const ServerOptions& options = {}) {
    auto server = ServerThread::start(path_, options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  std::shared_ptr<Store> connect() {
    auto store = Store::connect("unix:" + path_, soon());
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }

  Socket raw() {
    auto socket = Socket::connect(path_, {.deadline = soon()});
    EXPECT_TRUE(socket.ok()) << socket.status();
    return *std::move(socket);
  }

  std::optional<RunDirectory> directory_;
  std::string path_;
  std::unique_ptr<ServerThread> server_;
};

TEST_F(SocketStore, AddressesThatAreNone) {
  for (const std::string& address :
       {std::string(), std::string("unix"), std::string("unix:"),
        std::string("unix:relative/path"), std::string("tcp://host:1"),
        std::string("/just/a/path"), std::string("unix:/with\0nul", 14),
        "unix:/" + std::string(200, 'x')}) {
    const absl::Status status = Store::connect(address, soon()).status();
    EXPECT_EQ(error_reason(status), Reason::kInvalidArgument) << address;
    EXPECT_THAT(std::string(status.message()), HasSubstr("unix:/"));
  }
}

TEST_F(SocketStore, AbsentServerIsNamedAtTheDeadline) {
  const absl::Duration limit = absl::Milliseconds(80);
  const int64_t start = Deadline::now_ns();
  const absl::Status status =
      Store::connect("unix:" + path_, Deadline::after(limit)).status();
  const absl::Duration took = absl::Nanoseconds(Deadline::now_ns() - start);
  EXPECT_EQ(error_reason(status), Reason::kStoreUnreachable);
  for (const std::string& part :
       {path_, std::string("attempts"), std::string("errno 2")})
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  EXPECT_GE(took, limit);
  EXPECT_LT(took, limit + absl::Seconds(2));
}

TEST_F(SocketStore, PassedDeadlineStillTriesOnce) {
  const absl::Status status =
      Store::connect("unix:" + path_, Deadline::after(absl::Seconds(-1)))
          .status();
  EXPECT_EQ(error_reason(status), Reason::kStoreUnreachable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("1 attempt;"));
}

TEST_F(SocketStore, ServerThatComesLateIsAwaited) {
  std::thread client(
      [&] { EXPECT_TRUE(connect()->set("k", "v", soon()).ok()); });
  start();
  client.join();
  EXPECT_EQ(*connect()->get("k", soon()), "v");
}

TEST_F(SocketStore, SocketOfADeadServerRefuses) {
  start();
  // The file outlives a server that could not tidy up.
  const std::string kept = path_ + ".kept";
  ASSERT_EQ(link(path_.c_str(), kept.c_str()), 0);
  server_.reset();
  const absl::Status status =
      Store::connect("unix:" + kept, Deadline::after(absl::Milliseconds(30)))
          .status();
  EXPECT_EQ(error_reason(status), Reason::kStoreUnreachable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("errno 111"));
  EXPECT_NE(access(path_.c_str(), F_OK), 0) << "the server left its socket";
}

TEST_F(SocketStore, ServerGoneInMidWait) {
  start();
  const auto store = connect();
  std::atomic<bool> asked = false;
  std::thread waiter([&] {
    asked = true;
    const int64_t start_ns = Deadline::now_ns();
    const absl::Status status =
        store->wait({"never"}, Deadline::after(absl::Seconds(60)));
    EXPECT_EQ(error_reason(status), Reason::kStoreUnreachable) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
    EXPECT_LT(absl::Nanoseconds(Deadline::now_ns() - start_ns),
              absl::Seconds(10));
  });
  while (!asked) std::this_thread::yield();
  EXPECT_TRUE(connect()->set("other", "", soon()).ok());
  server_.reset();
  waiter.join();
  // Later calls fail at once, whatever their deadline.
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(
        error_reason(
            store->add("n", 1, Deadline::after(absl::Seconds(60))).status()),
        Reason::kStoreUnreachable);
}

// The server lives, but another line to it has ended.
TEST_F(SocketStore, GivingUpEndsCallsThatWaitAndLaterOnes) {
  start();
  bool hopeless = false;
  const auto store =
      *connect_to(*StorePlace::parse("unix:" + path_), soon(), &hopeless);
  std::thread waiter([&] {
    const absl::Status status =
        store->wait({"never"}, Deadline::after(absl::Seconds(60)));
    EXPECT_EQ(error_reason(status), Reason::kStoreUnreachable) << status;
  });
  const Deadline patience = soon();
  while (server_->server().connections() < 1 && !patience.passed())
    std::this_thread::yield();
  absl::SleepFor(absl::Milliseconds(20));  // usually, the call waits by now
  store->give_up("nothing was heard");
  waiter.join();
  EXPECT_EQ(error_reason(store->wait({"never"}, Deadline::never())),
            Reason::kStoreUnreachable);
  const absl::Status later = store->set("k", "v", Deadline::never());
  EXPECT_EQ(error_reason(later), Reason::kStoreUnreachable);
  EXPECT_THAT(std::string(later.message()), HasSubstr("nothing was heard"));
}

TEST_F(SocketStore, ClientThatLeavesIsForgotten) {
  start({.max_connections = 2});
  for (int i = 0; i < 20; ++i) {
    // Leaves while it waits, or is refused while earlier connections still
    // count.
    Socket socket = raw();
    const std::string frame =
        encode(Request{.op = Op::kWait, .keys = {"never"}});
    const auto sent = socket.send(frame, soon()).kind;
    ASSERT_TRUE(sent == Io::kDone || sent == Io::kBroken);
  }
  // Earlier connections count until the server has noticed their end.
  const Deadline deadline = soon();
  for (;;) {
    const auto store = connect();
    const absl::Status status = store->set("never", "", soon());
    if (status.ok()) break;
    ASSERT_EQ(error_reason(status), Reason::kStoreUnreachable) << status;
    ASSERT_FALSE(deadline.passed());
  }
}

TEST_F(SocketStore, TooManyConnections) {
  start({.max_connections = 2});
  const auto first = connect(), second = connect();
  ASSERT_TRUE(first->set("k", "v", soon()).ok());
  ASSERT_TRUE(second->set("k", "v", soon()).ok());
  EXPECT_EQ(error_reason(connect()->set("k", "v", soon())),
            Reason::kStoreUnreachable);
  EXPECT_EQ(*first->get("k", soon()), "v");
}

TEST_F(SocketStore, ManyTimedOutWaitsKeepTheirConnection) {
  start({.max_connections = 1});
  const auto store = connect();
  const Deadline enough = soon();
  // A call that a slow server does not answer in time loses its connection, and
  // the next call may come before the server knows.
  bool kept = true;
  for (int answered = 0; answered < 10; answered += kept ? 1 : 0) {
    ASSERT_FALSE(enough.passed());
    const absl::Status status =
        store->get("k", Deadline::after(absl::Milliseconds(3))).status();
    const std::optional<ErrorInfo> info = error_info(status);
    ASSERT_TRUE(info.has_value()) << status;
    if (kept) {
      EXPECT_EQ(info->reason, Reason::kTimedOut) << status;
    }
    kept = info->expected == "k" && info->cause.empty();
  }
  EXPECT_TRUE(store->set("k", "v", soon()).ok());
}

// Clients that take no answers keep those of others back for a moment only.
TEST_F(SocketStore, StuckReadersOfASeriesDelayNobody) {
  start();
  const auto store = connect();
  for (const char* const key : {"word/0", "word/1"})
    ASSERT_TRUE(store->set(key, std::string(1 << 20, 'w'), soon()).ok());
  std::vector<Socket> stuck;
  for (int i = 0; i < 8; ++i) {
    stuck.push_back(raw());
    ASSERT_EQ(stuck.back()
                  .send(encode(Request{
                            .op = Op::kGetAll, .keys = {"word"}, .number = 2}),
                        soon())
                  .kind,
              Io::kDone);
  }
  const auto all = store->get_all({"word/0", "word/1"}, soon());
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ((*all)[1].size(), size_t{1} << 20);
}

// The peer closed without an answer.
void expect_closed(Socket& socket) {
  char byte;
  const Io io = socket.receive(&byte, 1, soon());
  EXPECT_EQ(io.kind, Io::kBroken);
}

TEST_F(SocketStore, MalformedFramesEndTheirConnection) {
  start();
  const std::string good = encode(Request{.op = Op::kSet, .keys = {"k"}});
  std::string unknown_op = good;
  unknown_op[kHeaderBytes] = 99;
  std::string trailing = encode(Request{.op = Op::kSet, .keys = {"k"}}) + "x";
  ++trailing[0];
  const std::string frames[] = {
      std::string(4, '\0'),    // no body
      std::string(4, '\xff'),  // 4 GiB
      unknown_op,
      trailing,
      encode(Request{.op = Op::kSet, .keys = {}}),          // no key
      encode(Request{.op = Op::kSet, .keys = {"a", "b"}}),  // too many
      encode(Request{.op = Op::kWait, .keys = {"a", ""}}),  // empty key
      encode(Request{.op = Op::kAdd, .keys = {std::string(1025, 'k')}}),
  };
  for (const std::string& frame : frames) {
    Socket socket = raw();
    ASSERT_EQ(socket.send(frame, soon()).kind, Io::kDone);
    expect_closed(socket);
  }
  // A second request before the answer to the first.
  Socket socket = raw();
  const std::string wait = encode(Request{.op = Op::kWait, .keys = {"never"}});
  ASSERT_EQ(socket.send(wait + good, soon()).kind, Io::kDone);
  expect_closed(socket);

  EXPECT_FALSE(*connect()->delete_key("k", soon()));
}

TEST_F(SocketStore, FramesInPiecesAreWhole) {
  start();
  Socket socket = raw();
  Request request{.op = Op::kSet, .keys = {"k"}};
  request.value = "value";
  for (const char byte : encode(request))
    ASSERT_EQ(socket.send(absl::string_view(&byte, 1), soon()).kind, Io::kDone);
  EXPECT_EQ(*connect()->get("k", soon()), "value");
}

TEST_F(SocketStore, GarbageHurtsNobodyElse) {
  start();
  const auto store = connect();
  constexpr unsigned kSeed = 20240917;
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  std::mt19937 random(kSeed);
  for (int i = 0; i < 5000; ++i) {
    std::string bytes;
    if (i % 2 == 0) {
      bytes.resize(random() % 64);
      for (char& byte : bytes) byte = static_cast<char>(random());
    } else {
      // A request with a few bytes changed, so that it gets further.
      Request request{.op = static_cast<Op>(1 + random() % 6),
                      .timeout_ns = 0,
                      .keys = {"garbage", "more"}};
      request.keys.resize(1 + random() % 2);
      request.value = "v";
      bytes = encode(request);
      for (unsigned n = random() % 4; n > 0; --n)
        bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    Socket socket = raw();
    // The server may have closed before all is sent.
    socket.send(bytes, soon());
    if (i % 100 == 0) {
      EXPECT_EQ(*store->add("alive", 1, soon()), i / 100 + 1);
    }
  }
  EXPECT_EQ(*store->add("alive", 0, soon()), 50);
}

TEST_F(SocketStore, PathsThatCannotBeServed) {
  for (const std::string& path :
       {directory_->path() + "/" + std::string(120, 'x'),
        directory_->path() + "/no/such/folder"}) {
    const absl::Status status = ServerThread::start(path).status();
    EXPECT_EQ(error_reason(status), Reason::kRunDirectory) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  }
  start();
  EXPECT_EQ(error_reason(ServerThread::start(path_).status()),
            Reason::kRunDirectory)
      << "the path is in use";
}

// Another user id, on this thread only.
class AsUser {
 public:
  explicit AsUser(uid_t id) { become(id); }
  ~AsUser() { become(0); }

 private:
  static void become(uid_t id) {
    EXPECT_EQ(syscall(SYS_setresuid, -1, id, -1), 0);
  }
};

TEST_F(SocketStore, OtherUsersAreRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can take another user's id";
  constexpr uid_t kNobody = 65534;
  start();
  const auto as_nobody = [&] {
    absl::Status status;
    std::thread([&] {
      AsUser nobody(kNobody);
      status = Store::connect("unix:" + path_, soon()).status();
    }).join();
    return status;
  };
  // The private directory keeps other users out.
  EXPECT_EQ(error_reason(as_nobody()), Reason::kAuthFailed);
  // Without it the two ends check each other's user id.
  ASSERT_EQ(chmod(directory_->path().c_str(), 0755), 0);
  ASSERT_EQ(chmod(path_.c_str(), 0777), 0);
  std::atomic<int> refused = 0;
  base::set_log_sink([&](base::LogLevel, absl::string_view text) {
    EXPECT_THAT(std::string(text), HasSubstr("user id 65534"));
    ++refused;
  });
  EXPECT_EQ(error_reason(as_nobody()), Reason::kAuthFailed);
  const Deadline deadline = soon();
  while (refused == 0 && !deadline.passed()) std::this_thread::yield();
  base::set_log_sink({});
  EXPECT_EQ(refused, 1);
  EXPECT_TRUE(connect()->set("k", "v", soon()).ok());
}

TEST_F(SocketStore, ForkedChildUsesConnectionsOfItsOwn) {
  if (DW_SANITIZER != DW_SANITIZER_NONE)
    GTEST_SKIP() << "the child would wait for the sanitizer's locks, which "
                    "the server's thread held";
  start();
  const auto store = connect();
  ASSERT_EQ(*store->add("n", 1, soon()), 1);
  const pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 100; ++i)
      if (!store->add("n", 1, soon()).ok()) _exit(1);
    _exit(0);
  }
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(store->add("n", 1, soon()).ok());
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(*store->add("n", 0, soon()), 201);
}

}  // namespace
}  // namespace distwrap::store
