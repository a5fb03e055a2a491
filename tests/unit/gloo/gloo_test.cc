// Faults of Gloo itself that must not affect programs.
#include "exercise.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <vector>

namespace distwrap::gloo_test {
namespace {

const dw_error kWhy = {DW_ABORTED, DW_REASON_ABORTED, -1, 0, 0, "a test"};

dw_op whole_op(uint16_t kind, std::vector<float>& in, std::vector<float>& out) {
  dw_op op = op_of(kind, 1);
  op.in = buffer_of(in);
  op.out = buffer_of(out);
  return op;
}

// Starts the op, gives the other rank time to match it if possible, aborts.
void expect_no_meeting(Member& member, const dw_op& op) {
  dw_work work;
  dw_error error = {};
  ASSERT_EQ(gloo().submit(member.comm, &op, &work, &error), DW_OK)
      << error.text;
  EXPECT_FALSE(work.wait(std::chrono::milliseconds(30)));
  member.meeting.meet();
  gloo().comm_abort(member.comm, &kWhy);
  ASSERT_TRUE(work.wait(std::chrono::seconds(10)));
  EXPECT_GT(work.code(), DW_OK);
  EXPECT_EQ(work.completions(), 1);
}

TEST(GlooTest, CollectivesThatDifferNeverMeet) {
  for (const uint16_t kind :
       {uint16_t{DW_OP_ALL_REDUCE}, uint16_t{DW_OP_BROADCAST}})
    on_ranks(2, [&](Member& member) {
      const size_t count = member.rank == 0 ? 100 : 37;
      std::vector<float> in(count), out(count, 7.0f);
      dw_op op = whole_op(kind, in, out);
      op.peer = kind == DW_OP_BROADCAST ? 0 : -1;
      expect_no_meeting(member, op);
    });
}

// The connections go while the caller's thread writes: its own abort is the
// surest way to that, at ever other moments.
TEST(GlooTest, WritingToALostPeerRaisesNoSignal) {
  struct sigaction before;
  ASSERT_EQ(sigaction(SIGPIPE, nullptr, &before), 0);
  signal(SIGPIPE, SIG_DFL);
  constexpr int kMoments = 30;
  for (int moment = 0; moment < kMoments; ++moment)
    on_ranks(2, [&](Member& member) {
      std::promise<void> never;
      std::thread aborting;
      member.meeting.meet();
      if (member.rank == 0)
        aborting = std::thread([&, end = never.get_future()] {
          end.wait_for(std::chrono::microseconds(300 + 31 * moment));
          gloo().comm_abort(member.comm, &kWhy);
        });
      int32_t code = DW_DONE;
      for (uint64_t seq = 1; code == DW_DONE; ++seq) {
        dw_op op = {};
        op.struct_size = sizeof op;
        op.kind = DW_OP_BARRIER;
        op.flags = DW_FLAG_CALLER_WAITS;
        op.seq = seq;
        code = gloo().submit(member.comm, &op, nullptr, nullptr);
      }
      EXPECT_GT(code, DW_OK);
      if (aborting.joinable()) aborting.join();
    });
  sigset_t pending;
  ASSERT_EQ(sigpending(&pending), 0);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
  sigaction(SIGPIPE, &before, nullptr);
}

TEST(GlooTest, LostPeerIsNamedAndTheGroupIsBroken) {
  on_ranks(3, [](Member& member) {
    if (member.rank == 2) {
      member.meeting.meet();
      gloo().comm_abort(member.comm, &kWhy);
      return member.meeting.meet();
    }
    // The two ranks wait only for rank 2, so it is the first to go.
    std::vector<float> data(4), none;
    dw_op op = whole_op(DW_OP_RECV, none, data);
    op.peer = 2;
    dw_work work;
    ASSERT_EQ(gloo().submit(member.comm, &op, &work, nullptr), DW_OK);
    member.meeting.meet();
    ASSERT_TRUE(work.wait(std::chrono::seconds(10)));
    EXPECT_EQ(work.code(), DW_UNAVAILABLE);
    const dw_error error = work.error();
    EXPECT_EQ(error.reason, DW_REASON_PEER_LOST);
    EXPECT_NE(std::string(error.text).find("2"), std::string::npos);
    dw_error later = {};
    op.flags = DW_FLAG_CALLER_WAITS;
    EXPECT_EQ(gloo().submit(member.comm, &op, nullptr, &later), DW_UNAVAILABLE);
    EXPECT_EQ(later.reason, DW_REASON_PEER_LOST);
    EXPECT_STREQ(later.text, error.text);
    member.meeting.meet();
  });
}

// A rank that sees a connection end asks the host for the reason, which the
// host knows only after it was told of this rank's loss.
TEST(GlooTest, TheLossOfAPeerEndsNoOtherConnection) {
  on_ranks(3, [](Member& member) {
    if (member.rank == 2) {
      member.meeting.meet();
      gloo().comm_abort(member.comm, &kWhy);
      return member.meeting.meet();
    }
    std::vector<float> data(4), none;
    dw_op op = whole_op(DW_OP_RECV, none, data);
    op.peer = member.rank == 0 ? 2 : 0;
    dw_work work;
    ASSERT_EQ(gloo().submit(member.comm, &op, &work, nullptr), DW_OK);
    member.meeting.meet();
    if (member.rank == 0) {
      EXPECT_TRUE(work.wait(std::chrono::seconds(10)));
      EXPECT_EQ(work.error().reason, DW_REASON_PEER_LOST);
    }
    member.meeting.meet();
    if (member.rank == 1) {
      EXPECT_FALSE(work.wait(std::chrono::milliseconds(50)));
      gloo().comm_abort(member.comm, &kWhy);
      EXPECT_TRUE(work.wait(std::chrono::seconds(10)));
    }
  });
}

size_t entries(const char* folder) {
  size_t n = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator(folder))
    ++n;
  return n;
}

// Gloo lets the kernel decide when a second small message leaves.
TEST(GlooTest, SmallMessagesGoAtOnce) {
  on_ranks(2, [](Member& member) {
    int connections = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator("/proc/self/fd")) {
      const int descriptor = std::stoi(entry.path().filename());
      sockaddr_in peer = {};
      socklen_t size = sizeof peer;
      if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size) !=
              0 ||
          peer.sin_family != AF_INET)
        continue;
      int on = 0;
      size = sizeof on;
      ASSERT_EQ(getsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, &size),
                0);
      EXPECT_EQ(on, 1);
      ++connections;
    }
    EXPECT_GE(connections, 2);
    member.meeting.meet();
  });
}

TEST(GlooTest, GroupsLeaveNoDescriptorAndNoThread) {
  const auto round = [] {
    on_ranks(3, [](Member& member) {
      EXPECT_EQ(run(member, op_of(DW_OP_BARRIER, 1), false), "");
    });
  };
  round();
  const size_t descriptors = entries("/proc/self/fd");
  const size_t threads = entries("/proc/self/task");
  for (int i = 0; i < 5; ++i) round();
  EXPECT_EQ(entries("/proc/self/fd"), descriptors);
  EXPECT_EQ(entries("/proc/self/task"), threads);
}

TEST(GlooTest, ManyOpenWorksNeedOneThread) {
  on_ranks(2, [](Member& member) {
    constexpr size_t kWorks = 1000;
    std::vector<float> data(kWorks), none;
    std::vector<std::unique_ptr<dw_work>> works;
    member.meeting.meet();
    const size_t before = entries("/proc/self/task");
    member.meeting.meet();
    for (size_t i = 0; i < kWorks; ++i) {
      std::vector<float> one(1);
      dw_op op = member.rank == 0 ? whole_op(DW_OP_RECV, none, one)
                                  : whole_op(DW_OP_SEND, one, none);
      op.peer = 1 - member.rank;
      op.in.data = op.out.data = &data[i];
      op.tag = member.rank == 0 ? i : kWorks - 1 - i;
      if (member.rank == 1) data[i] = static_cast<float>(kWorks - 1 - i);
      works.push_back(std::make_unique<dw_work>());
      if (member.rank == 1 && i == 0) member.meeting.meet();
      ASSERT_EQ(gloo().submit(member.comm, &op, works.back().get(), nullptr),
                DW_OK);
    }
    if (member.rank == 0) {
      EXPECT_LE(entries("/proc/self/task"), before + 2);
      member.meeting.meet();
    }
    for (const auto& work : works) {
      ASSERT_TRUE(work->wait(std::chrono::seconds(20)));
      EXPECT_EQ(work->code(), DW_OK);
    }
    for (size_t i = 0; i < kWorks && member.rank == 0; ++i)
      ASSERT_EQ(data[i], static_cast<float>(i));
  });
}

TEST(GlooTest, UnknownInterfaceIsRefused) {
  const dw_hint hint = {{"interface", 9}, {"x-nowhere0", 10}};
  dw_open_info open = conformance::open_info();
  open.hints = &hint;
  open.n_hints = 1;
  dw_backend* backend = nullptr;
  ASSERT_EQ(gloo().open(&conformance::host_table(), &open, &backend, nullptr),
            DW_OK);
  dw_setup_info info = {};
  info.struct_size = sizeof info;
  info.flags = DW_SETUP_COMMUNICATOR;
  info.size = 2;
  dw_setup* setup = nullptr;
  dw_blob out = {};
  dw_error error = {};
  EXPECT_EQ(gloo().setup_begin(backend, &info, &setup, &out, &error),
            DW_UNAVAILABLE);
  EXPECT_NE(std::string(error.text).find("x-nowhere0"), std::string::npos)
      << error.text;
  gloo().close(backend);
}

TEST(GlooTest, LargeGroupsOverHostsAreRefused) {
  const dw_open_info open = conformance::open_info();
  dw_backend* backend = nullptr;
  ASSERT_EQ(gloo().open(&conformance::host_table(), &open, &backend, nullptr),
            DW_OK);
  const auto code = [&](int32_t size, int32_t hosts, dw_error* error) {
    std::vector<int32_t> host_of;
    for (int32_t rank = 0; rank < size; ++rank)
      host_of.push_back(rank * hosts / size);
    dw_setup_info info = {};
    info.struct_size = sizeof info;
    info.flags = DW_SETUP_COMMUNICATOR;
    info.size = size;
    info.host_of = host_of.data();
    dw_setup* setup = nullptr;
    dw_blob out = {};
    const int32_t begun =
        gloo().setup_begin(backend, &info, &setup, &out, error);
    if (begun == DW_OK) gloo().setup_cancel(setup);
    return begun;
  };
  dw_error error = {};
  EXPECT_EQ(code(256, 2, &error), DW_OK) << error.text;
  EXPECT_EQ(code(257, 2, &error), DW_UNIMPLEMENTED);
  EXPECT_EQ(error.reason, DW_REASON_UNSUPPORTED);
  EXPECT_NE(std::string(error.text).find("256, here 257: use the backend ucx"),
            std::string::npos)
      << error.text;
  gloo().close(backend);
}

// The peer's listeners are gone when this rank calls: the result is an error,
// or another round in which the host waits, but nothing blocks here.
TEST(GlooTest, SetupDoesNotWaitForAnAbsentPeer) {
  for (int i = 0; i < 4; ++i)
    on_ranks(2, [](Member& member) {
      const dw_setup_info info = conformance::setup_info(member, 77);
      dw_setup* setup = nullptr;
      dw_blob out = {};
      ASSERT_EQ(
          gloo().setup_begin(member.backend, &info, &setup, &out, nullptr),
          DW_OK);
      const std::vector<std::string> texts = member.meeting.swap(
          member.rank,
          std::string(static_cast<const char*>(out.data), out.size));
      if (member.rank == 1) gloo().setup_cancel(setup);
      member.meeting.meet();
      if (member.rank == 1) return;
      std::vector<dw_blob> blobs;
      for (const std::string& text : texts)
        blobs.push_back({text.data(), text.size(), nullptr, 0});
      dw_setup_result result = {};
      const auto begin = std::chrono::steady_clock::now();
      if (gloo().setup_step(setup, blobs.data(), 2, &out, &result, nullptr) ==
          DW_OK)
        gloo().setup_cancel(setup);
      EXPECT_LT(std::chrono::steady_clock::now() - begin,
                std::chrono::seconds(5));
      EXPECT_EQ(result.comm, nullptr);
    });
}

}  // namespace
}  // namespace distwrap::gloo_test
