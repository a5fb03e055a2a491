// Wrong calls are refused before anything is sent, by one clear error, and the
// group goes on.
#include "fake_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace distwrap::nccl_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

dw_error open_with(const HintMap& hints, int device = 0) {
  dw_error error = {};
  run_unopened({.size = 1, .devices = {device}}, [&](FakeRank& rank) {
    rank.open(hints);
    error = rank.error;
  });
  return error;
}

TEST(NcclOpen, NamesAMissingLibrary) {
  const dw_error error = open_with({{"nccl_library", "/nowhere/libnccl.so.2"}});
  EXPECT_EQ(error.code, DW_UNAVAILABLE);
  EXPECT_THAT(error.text,
              AllOf(HasSubstr("/nowhere/libnccl.so.2"), HasSubstr("2.19")));
}

TEST(NcclOpen, NamesAMissingDriver) {
  const dw_error error = open_with({{"cuda_driver", "/nowhere/libcuda.so.1"}});
  EXPECT_EQ(error.code, DW_UNAVAILABLE);
  EXPECT_THAT(error.text, AllOf(HasSubstr("no CUDA driver"),
                                HasSubstr("/nowhere/libcuda.so.1"),
                                HasSubstr("name its file by the hint")));
}

TEST(NcclOpen, NamesBothVersionsOfAnOldLibrary) {
  const dw_error error = open_with({{"nccl_library", fake_nccl(21805)}});
  EXPECT_EQ(error.code, DW_UNAVAILABLE);
  EXPECT_THAT(error.text, AllOf(HasSubstr("2.18.5"), HasSubstr("2.19.0")));
}

TEST(NcclOpen, NamesAnotherLibrary) {
  EXPECT_THAT(open_with({{"nccl_library", "libm.so.6"}}).text,
              HasSubstr("is not NCCL"));
  EXPECT_THAT(open_with({{"cuda_driver", "libm.so.6"}}).text,
              HasSubstr("has no cu"));
}

TEST(NcclOpen, NamesTheNumberOfDevices) {
  const dw_error error = open_with({}, 64);
  EXPECT_EQ(error.code, DW_UNAVAILABLE);
  EXPECT_THAT(error.text,
              AllOf(HasSubstr("no device 64"), HasSubstr("sees 64")));
}

TEST(NcclOpen, SaysThatThereIsNoDevice) {
  fakes::gpu::set_machine(0, 9);
  const dw_error error = open_with({});
  fakes::gpu::set_machine(64, 9);
  EXPECT_EQ(error.code, DW_UNAVAILABLE);
  EXPECT_THAT(error.text, AllOf(HasSubstr("driver does not start"),
                                HasSubstr("CUDA_ERROR_NO_DEVICE"),
                                HasSubstr("CUDA_VISIBLE_DEVICES tell")));
}

TEST(NcclOpen, RefusesHintsThatAreWrong) {
  EXPECT_THAT(open_with({{"max_ctaz", "3"}}).text,
              AllOf(HasSubstr("no hint max_ctaz"), HasSubstr("README.md")));
  for (const char* const junk : {"", "many", "0", "65", "3x"}) {
    const dw_error error = open_with({{"max_ctas", junk}});
    EXPECT_EQ(error.code, DW_INVALID_ARGUMENT) << junk;
    EXPECT_THAT(error.text, AllOf(HasSubstr("max_ctas"), HasSubstr("1 to 64")));
  }
  EXPECT_THAT(open_with({{"tags", "any"}}).text, HasSubstr("in_order"));
}

// Every rank hears of it, and names the same two.
TEST(NcclSetup, TwoRanksOnOneGpuAreNamed) {
  unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
  const Team team = {.size = 3, .devices = {0, 1, 0}};
  run_unopened(team, [](FakeRank& rank) {
    ASSERT_EQ(rank.open(), DW_OK);
    EXPECT_NE(rank.build(), DW_OK);
    EXPECT_EQ(rank.error.peer, 2);
    EXPECT_THAT(rank.error.text,
                AllOf(HasSubstr("same GPU as rank 0"),
                      HasSubstr("give each rank a device of its own")));
  });
}

TEST(NcclSetup, OtherVersionsOnOtherRanksAreNamed) {
  run_unopened({.size = 2}, [](FakeRank& rank) {
    ASSERT_EQ(rank.open({{"nccl_library",
                          fake_nccl(rank.rank == 0 ? 21903 : 22803)}}),
              DW_OK);
    EXPECT_NE(rank.build(), DW_OK);
    EXPECT_EQ(rank.error.peer, 1 - rank.rank);
    EXPECT_THAT(rank.error.text,
                AllOf(HasSubstr("NCCL 2.19.3"), HasSubstr("NCCL 2.28.3")));
  });
}

TEST(NcclSetup, HintsThatDifferAreRefused) {
  run_unopened({.size = 2}, [](FakeRank& rank) {
    ASSERT_EQ(rank.open(), DW_OK);
    EXPECT_NE(rank.build({{"max_ctas", rank.rank == 0 ? "2" : "3"}}), DW_OK);
    EXPECT_THAT(rank.error.text, HasSubstr("hints differ"));
  });
}

TEST(NcclSetup, AHintThatTheVersionLacksIsRefused) {
  run_unopened({.size = 1, .version = 21903}, [](FakeRank& rank) {
    ASSERT_EQ(rank.open(), DW_OK);
    EXPECT_EQ(rank.build({{"cta_policy", "1"}}), DW_INVALID_ARGUMENT);
    EXPECT_THAT(rank.error.text,
                AllOf(HasSubstr("cta_policy"), HasSubstr("2.27.3"),
                      HasSubstr("2.19.3")));
  });
}

// A rank that never comes keeps no thread: the setup is cancelled.
TEST(NcclSetup, CanBeCancelledWhileNcclWaits) {
  run_unopened({.size = 2}, [](FakeRank& rank) {
    ASSERT_EQ(rank.open(), DW_OK);
    // Rank 1 leaves after the first round, so NCCL never gets ready on rank 0.
    EXPECT_EQ(rank.build({}, 1), DW_CANCELLED);
    rank.close();
    EXPECT_EQ(rank.backend, nullptr);
  });
}

// Each hint of NCCL's config reaches the library.
TEST(NcclHints, ReachNccl) {
  HintMap hints = {{"net_name", "Socket"}, {"comm_name", "dp"}};
  std::vector<std::string> notes = {"netName=Socket", "commName=dp"};
#define NCCL_FIELD_HINT(name, field, since, least, most) \
  hints[#name] = std::to_string(most);                   \
  notes.push_back(#field "=" + std::to_string(most));
#include "nccl/hints.def"
  fakes::gpu::take_notes();
  run_ranks({.size = 1, .hints = hints}, [](FakeRank&) {});
  EXPECT_THAT(fakes::gpu::take_notes(),
              testing::UnorderedElementsAreArray(notes));
}

// "Versions/NcclGraphs" and "X/21903" are NcclGraphs.X.
std::string unparameterized(const std::string& suite, const std::string& test) {
  return suite.substr(suite.find('/') + 1) + "." +
         test.substr(0, test.find('/'));
}

// Every other hint has a test of its effect.
TEST(NcclHints, EachHasATest) {
  const std::map<std::string, std::string> tests = {
      {"nccl_library", "NcclOpen.NamesAMissingLibrary"},
      {"cuda_driver", "NcclOpen.NamesAMissingDriver"},
      {"encryption_key_file", "NcclHints.AKeyReachesNcclOnce"},
      {"net_name", "NcclHints.ReachNccl"},
      {"comm_name", "NcclHints.ReachNccl"},
      {"tags", "NcclCalls.TagsInOrderAreAllowedByAHint"},
      {"check_pointers", "NcclCalls.WrongOnesAreRefusedAndNothingIsSent"},
      {"ranks_per_id", "NcclHints.RanksPerIdSpreadsIds"},
      {"register_memory", "NcclMemory.IsNotRegisteredWithoutNeed"},
      {"split", "NcclSplit.ThatIsGivenUpEndsTheParent"},
      {"watch_replays", "NcclGraphs.AReplayThatIsStuckEndsItsGroup"}};
  std::set<std::string> here;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *all.GetTestSuite(s);
    for (int i = 0; i < suite.total_test_count(); ++i)
      here.insert(unparameterized(suite.name(), suite.GetTestInfo(i)->name()));
  }
  std::vector<std::string> hints;
#define NCCL_TEXT_HINT(name) hints.push_back(#name);
#define NCCL_INT_HINT(name, least, most) hints.push_back(#name);
#include "nccl/hints.def"
  for (const std::string& hint : hints) {
    const auto test = tests.find(hint);
    ASSERT_NE(test, tests.end()) << hint << " has no test of its effect";
    EXPECT_EQ(here.count(test->second), 1U) << test->second;
  }
}

// A file with these bytes, readable by this user only unless told otherwise.
class KeyFile {
 public:
  explicit KeyFile(const std::string& bytes, mode_t mode = 0600) {
    const int fd = mkstemp(path_.data());
    EXPECT_EQ(write(fd, bytes.data(), bytes.size()),
              static_cast<ssize_t>(bytes.size()));
    fchmod(fd, mode);
    close(fd);
  }
  ~KeyFile() { unlink(path_.c_str()); }
  KeyFile(const KeyFile&) = delete;
  KeyFile& operator=(const KeyFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_ = testing::TempDir() + "/nccl_key_XXXXXX";
};

const std::string kKey = "a key of this test with its 32 bytes";

TEST(NcclHints, AKeyThatIsWrongIsRefused) {
  const KeyFile good(kKey), open_to_all(kKey, 0644), brief("brief\n"),
      zero(kKey + '\0' + "x");
  const auto text_of = [](const std::string& path) {
    return std::string(open_with({{"encryption_key_file", path}}).text);
  };
  EXPECT_THAT(text_of("/nowhere/key"), HasSubstr("cannot be opened"));
  EXPECT_THAT(text_of("/"), HasSubstr("no file of this user"));
  EXPECT_THAT(text_of(open_to_all.path()), HasSubstr("others cannot read"));
  EXPECT_THAT(text_of(brief.path()), HasSubstr("32 to 4096 bytes"));
  EXPECT_THAT(text_of(zero.path()), HasSubstr("zero byte"));
  const dw_error old = open_with({{"encryption_key_file", good.path()},
                                  {"nccl_library", fake_nccl(22902)}});
  EXPECT_EQ(old.code, DW_INVALID_ARGUMENT);
  EXPECT_THAT(old.text, AllOf(HasSubstr("2.32.3"), HasSubstr("2.29.2")));
}

// NCCL has one key for the process.
TEST(NcclHints, AKeyReachesNcclOnce) {
  const KeyFile key(kKey + "\n"), again(kKey), other(kKey + " or another");
  fakes::gpu::take_notes();
  static bool given = false;  // when the test is repeated
  if (!given) {
    fakes::gpu::fail_call(1, 3);
    EXPECT_THAT(open_with({{"encryption_key_file", key.path()}}).text,
                HasSubstr("ncclSetEncryption: a fake NCCL's error"));
    fakes::gpu::fail_call(0, 0);
  }
  for (const KeyFile* const one : {&key, &again})
    EXPECT_STREQ(open_with({{"encryption_key_file", one->path()}}).text, "");
  EXPECT_THAT(fakes::gpu::take_notes(),
              testing::Contains("key=" + kKey).Times(given ? 0 : 1));
  given = true;
  EXPECT_THAT(open_with({{"encryption_key_file", other.path()}}).text,
              HasSubstr("another key in use"));
  run_unopened({.size = 1}, [&](FakeRank& rank) {
    ASSERT_EQ(rank.open(), DW_OK);
    EXPECT_EQ(rank.build({{"encryption_key_file", key.path()}}),
              DW_INVALID_ARGUMENT);
    EXPECT_THAT(rank.error.text, HasSubstr("a hint of the session"));
  });
  // A rank without the key could not be reached.
  run_unopened({.size = 2}, [&](FakeRank& rank) {
    HintMap hints;
    if (rank.rank == 0) hints["encryption_key_file"] = key.path();
    ASSERT_EQ(rank.open(hints), DW_OK) << rank.error.text;
    EXPECT_NE(rank.build(), DW_OK);
    EXPECT_THAT(rank.error.text, HasSubstr("hints differ"));
  });
}

// `distwrap info --backend nccl` shows these lines.
TEST(NcclOpen, TellsWhatItHasFound) {
  static std::mutex mutex;
  static std::vector<std::string> lines;
  lines.clear();
  dw_host_api host = conformance::host_table();
  host.log = [](void*, int32_t, dw_str text) {
    const std::lock_guard<std::mutex> lock(mutex);
    lines.emplace_back(text.data, text.size);
  };
  for (const int version : {22803, 23203}) {
    const std::string library = fake_nccl(version), driver = fake_driver();
    const dw_hint hints[] = {
        {{"nccl_library", 12}, {library.data(), library.size()}},
        {{"cuda_driver", 11}, {driver.data(), driver.size()}}};
    dw_open_info info = {};
    info.struct_size = sizeof info;
    info.device_type = DW_DEVICE_CUDA;
    info.hints = hints;
    info.n_hints = 2;
    dw_backend* backend = nullptr;
    dw_error error = {};
    ASSERT_EQ(nccl().open(&host, &info, &backend, &error), DW_OK) << error.text;
    nccl().close(backend);
  }
  EXPECT_THAT(
      lines,
      testing::IsSupersetOf(
          {HasSubstr("NCCL 2.28.3 on a driver of CUDA 12.8"),
           HasSubstr("lacks ncclCommRevoke ncclPutSignal ncclSignal "
                     "ncclWaitSignal ncclSetEncryption"),
           HasSubstr("NCCL 2.32.3"), HasSubstr("has everything that is used"),
           HasSubstr("there are no windows"),
           HasSubstr("windows on memory of the device are possible"),
           HasSubstr("NVLink between hosts (MNNVL) is possible")}));
}

TEST(NcclHints, RanksPerIdSpreadsIds) {
  for (const int version : versions()) {
    fakes::gpu::take_notes();
    run_ranks({.size = 5, .version = version, .hints = {{"ranks_per_id", "2"}}},
              [](FakeRank& rank) {
                EXPECT_EQ(
                    rank.call(rank.op(DW_OP_BARRIER, nullptr, nullptr, 0)),
                    DW_DONE);
              });
    const std::vector<std::string> notes = fakes::gpu::take_notes();
    if (version < 22300)
      EXPECT_THAT(notes, testing::IsEmpty());
    else
      EXPECT_THAT(notes, testing::Each("ids=3"));
  }
}

// One operation after the other on one rank only; then a call that works.
TEST(NcclCalls, WrongOnesAreRefusedAndNothingIsSent) {
  run_ranks(
      {.size = 2, .hints = {{"check_pointers", "1"}}}, [](FakeRank& rank) {
        const DeviceInts x(rank, {rank.rank + 1});
        if (rank.rank == 0) {
          CUstream_st stream(rank.device), far(5);
          dw_work work;
          const dw_op good = rank.op(DW_OP_ALL_REDUCE, x.data(), x.data(), 1);
          const auto refused = [&](const dw_op& op, int32_t code,
                                   const char* text) {
            EXPECT_EQ(rank.submit(op, &work), code) << text;
            EXPECT_THAT(rank.error.text, HasSubstr(text));
          };
          int64_t on_host = 0;
          dw_op op = rank.op(DW_OP_ALL_REDUCE, &on_host, &on_host, 1);
          refused(op, DW_INVALID_ARGUMENT, "not memory of a device; copy");
          void* const elsewhere = fakes::gpu::allocate(5, 8);
          op = rank.op(DW_OP_ALL_REDUCE, elsewhere, elsewhere, 1);
          refused(op, DW_INVALID_ARGUMENT, "there first");
          fakes::gpu::release(elsewhere);
          op = good;
          op.stream = {DW_DEVICE_CUDA, 5, &far};
          refused(op, DW_INVALID_ARGUMENT, "use a stream of that device");
          op.stream = {DW_DEVICE_CUDA, rank.device, &far};
          refused(op, DW_INVALID_ARGUMENT, "not of the primary context of");
          op.stream = {DW_DEVICE_CUDA, rank.device, nullptr};
          refused(op, DW_INVALID_ARGUMENT, "default stream has the handle 1");
          op = good;
          op.kind = DW_OP_SCAN;
          refused(op, DW_UNIMPLEMENTED, "not supported");
          op = good;
          op.reduce = DW_REDUCE_BXOR;
          refused(op, DW_UNIMPLEMENTED, "reduction");
          op = good;
          op.in.dtype = op.out.dtype = {0, 16, 1};
          refused(op, DW_UNIMPLEMENTED, "reduction");
          op = good;
          op.in.dtype = op.out.dtype = {2, 64, 1};
          op.reduce = DW_REDUCE_PREMUL_SUM;
          refused(op, DW_INVALID_ARGUMENT, "factor");
          op = rank.op(DW_OP_SEND, x.data(), nullptr, 1, 1);
          op.tag = 3;
          refused(op, DW_UNIMPLEMENTED, "tags=in_order");
          op = rank.op(DW_OP_SEND, x.data(), nullptr, 1, 0);
          refused(op, DW_UNIMPLEMENTED, "itself");
          op = rank.op(DW_OP_SEND, x.data(), nullptr, 1, 2);
          refused(op, DW_INVALID_ARGUMENT, "not in the group");
          const DeviceInts two(rank, {1, 2});
          op = rank.op(DW_OP_ALL_TO_ALL, two.data(), two.data(), 2);
          refused(op, DW_UNIMPLEMENTED, "flag");
        }
        EXPECT_EQ(rank.call(rank.op(DW_OP_ALL_REDUCE, x.data(), x.data(), 1)),
                  DW_DONE)
            << rank.error.text;
        EXPECT_EQ(x.values(), Ints{3});
      });
}

// Not even when pointers are checked: what is empty is not read.
TEST(NcclCalls, AnEmptyPartMayLieAnywhere) {
  run_ranks({.size = 2, .hints = {{"check_pointers", "1"}}},
            [](FakeRank& rank) {
              const DeviceInts x(rank, {7}), y(rank, {-1});
              int64_t elsewhere = 0;
              void* const parts[] = {y.data(), &elsewhere};
              const int64_t counts[] = {1, 0};
              dw_op op = rank.op(DW_OP_ALL_GATHER, x.data(), nullptr, 1);
              op.in.count = rank.rank == 0 ? 1 : 0;
              op.out.count = 1;
              op.out.parts = parts;
              op.out.counts = counts;
              op.flags |= DW_FLAG_PER_RANK | DW_FLAG_PARTS;
              EXPECT_EQ(rank.call(op), DW_DONE) << rank.error.text;
              EXPECT_EQ(y.values(), Ints{7});
            });
}

TEST(NcclCalls, TagsInOrderAreAllowedByAHint) {
  run_ranks({.size = 2, .hints = {{"tags", "in_order"}}}, [](FakeRank& rank) {
    const DeviceInts x(rank, {rank.rank});
    dw_op op = rank.rank == 0 ? rank.op(DW_OP_SEND, x.data(), nullptr, 1, 1)
                              : rank.op(DW_OP_RECV, nullptr, x.data(), 1, 0);
    op.tag = 9;
    EXPECT_EQ(rank.call(op), DW_DONE) << rank.error.text;
    EXPECT_EQ(x.values(), Ints{0});
  });
}

// NCCL reduces floats of 8 bits from sm_90 and 2.24.3 on, and moves them
// everywhere.
TEST(NcclCalls, FloatsOf8BitsByDevice) {
  for (const int capability : {8, 9}) {
    for (const int version : {22304, 23203}) {
      fakes::gpu::set_machine(64, capability);
      // A device that is open stays as it was.
      const int device = 40 + capability;
      run_ranks({.size = 1, .version = version, .devices = {device}},
                [=](FakeRank& rank) {
                  const DeviceInts x(rank, {0});
                  dw_op op = rank.op(DW_OP_ALL_REDUCE, x.data(), x.data(), 8);
                  op.in.dtype = op.out.dtype = {10, 8, 1};
                  if (capability < 9 || version < 22403) {
                    EXPECT_EQ(rank.call(op), DW_UNIMPLEMENTED);
                    EXPECT_THAT(rank.error.text,
                                AllOf(HasSubstr("from sm_90 and NCCL 2.24.3"),
                                      HasSubstr("as 16-bit floats")));
                  } else {
                    EXPECT_EQ(rank.call(op), DW_DONE) << rank.error.text;
                  }
                  op.kind = DW_OP_BROADCAST;
                  op.peer = 0;
                  op.reduce = DW_REDUCE_NONE;
                  EXPECT_EQ(rank.call(op), DW_DONE) << rank.error.text;
                });
    }
  }
  fakes::gpu::set_machine(64, 9);
}

// Signed averages are wrong in NCCL before 2.24.3.
TEST(NcclCalls, SignedAveragesByVersion) {
  for (const int version : versions())
    run_ranks({.size = 2, .version = version}, [=](FakeRank& rank) {
      const DeviceInts x(rank, {rank.rank == 0 ? -5 : 2});
      dw_op op = rank.op(DW_OP_ALL_REDUCE, x.data(), x.data(), 1);
      op.reduce = DW_REDUCE_AVG;
      if (version < 22403) {
        EXPECT_EQ(rank.call(op), DW_UNIMPLEMENTED);
        return;
      }
      EXPECT_EQ(rank.call(op), DW_DONE) << rank.error.text;
      EXPECT_EQ(x.values(), Ints{-1});
    });
}

// Memory of mem_alloc.
class Allocated {
 public:
  Allocated(const FakeRank& rank, const Ints& values) : rank_(rank) {
    EXPECT_EQ(
        nccl().mem_alloc(rank.backend, values.size() * 8, &mem, &data, nullptr),
        DW_OK);
    fakes::gpu::write(data, values.data(), values.size() * 8);
  }
  int32_t release(dw_error* error = nullptr) {
    return nccl().mem_release(rank_.backend, mem, error);
  }

  dw_mem* mem = nullptr;
  void* data = nullptr;

 private:
  const FakeRank& rank_;
};

dw_op registered(dw_op op) {
  op.flags |= DW_FLAG_REGISTERED;
  return op;
}

// Each block is registered once with each communicator, and no longer when it
// is released, or when the communicator ends.
TEST(NcclMemory, IsRegisteredAtFirstUse) {
  for (const int version : versions()) {
    fakes::gpu::take_notes();
    run_ranks({.size = 2, .version = version}, [](FakeRank& rank) {
      Allocated x(rank, {1, 2}), y(rank, {0, 0});
      const dw_op op = registered(rank.op(DW_OP_ALL_REDUCE, x.data, y.data, 2));
      for (int i = 0; i < 3; ++i)
        EXPECT_EQ(rank.call(op), DW_DONE) << rank.error.text;
      EXPECT_EQ(x.release(), DW_OK);
      EXPECT_EQ(nccl().comm_destroy(
                    rank.comm, conformance::now_ns() + 5'000'000'000, nullptr),
                DW_OK);
      ASSERT_EQ(rank.build({}, 1000, 8), DW_OK) << rank.error.text;
      EXPECT_EQ(
          rank.call(registered(rank.op(DW_OP_BROADCAST, y.data, y.data, 2, 0))),
          DW_DONE)
          << rank.error.text;
      EXPECT_EQ(y.release(), DW_OK);
    });
    const std::vector<std::string> notes = fakes::gpu::take_notes();
    EXPECT_THAT(notes, testing::Contains("ncclCommRegister").Times(6));
    EXPECT_THAT(notes, testing::Contains("ncclCommDeregister").Times(6));
  }
}

TEST(NcclMemory, IsNotRegisteredWithoutNeed) {
  fakes::gpu::take_notes();
  run_ranks(
      {.size = 1, .hints = {{"register_memory", "0"}}}, [](FakeRank& rank) {
        Allocated x(rank, {1});
        EXPECT_EQ(
            rank.call(registered(rank.op(DW_OP_ALL_REDUCE, x.data, x.data, 1))),
            DW_DONE);
        EXPECT_EQ(x.release(), DW_OK);
      });
  run_ranks({.size = 1}, [](FakeRank& rank) {
    Allocated x(rank, {1});
    EXPECT_EQ(rank.call(rank.op(DW_OP_ALL_REDUCE, x.data, x.data, 1)), DW_DONE);
    EXPECT_EQ(x.release(), DW_OK);
  });
  EXPECT_THAT(fakes::gpu::take_notes(), testing::IsEmpty());
}

// Nothing changes when memory is released that an operation uses.
TEST(NcclMemory, IsKeptWhileAnOperationUsesIt) {
  run_ranks({.size = 1}, [](FakeRank& rank) {
    ASSERT_EQ(rank.call(rank.op(DW_OP_BARRIER, nullptr, nullptr, 0)), DW_DONE);
    CUstream_st stream(rank.device);
    fakes::gpu::Moment gate;
    stream.put([&] { gate.wait(); });
    Allocated x(rank, {1});
    dw_work work;
    ASSERT_EQ(
        rank.submit(registered(rank.on(
                        rank.op(DW_OP_ALL_REDUCE, x.data, x.data, 1), stream)),
                    &work),
        DW_OK);
    dw_error error = {};
    EXPECT_EQ(x.release(&error), DW_INVALID_ARGUMENT);
    EXPECT_THAT(error.text, HasSubstr("uses the memory; wait for its end"));
    gate.happen();
    ASSERT_TRUE(work.wait(std::chrono::seconds(10)));
    EXPECT_EQ(x.release(&error), DW_OK) << error.text;
    EXPECT_EQ(nccl().mem_release(rank.backend, x.mem, &error),
              DW_INVALID_ARGUMENT);
    EXPECT_THAT(error.text, HasSubstr("no memory of the backend"));
  });
}

TEST(NcclMemory, IsAllocatedOnTheDevice) {
  run_ranks({.size = 2}, [](FakeRank& rank) {
    dw_mem* mem = nullptr;
    void* address = nullptr;
    ASSERT_EQ(nccl().mem_alloc(rank.backend, 8, &mem, &address, nullptr),
              DW_OK);
    EXPECT_EQ(fakes::gpu::device_of(address), rank.device);
    const int64_t one = 1;
    fakes::gpu::write(address, &one, sizeof one);
    EXPECT_EQ(rank.call(rank.op(DW_OP_ALL_REDUCE, address, address, 1)),
              DW_DONE);
    EXPECT_EQ(nccl().mem_release(rank.backend, mem, nullptr), DW_OK);
    EXPECT_EQ(fakes::gpu::device_of(address), -1);
  });
}

}  // namespace
}  // namespace distwrap::nccl_test
