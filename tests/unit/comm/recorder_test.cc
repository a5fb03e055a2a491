#include "comm/recorder/recorder.h"

#include "comm/recorder/plain_json.h"
#include "comm/recorder/recording.h"
#include "comm/recorder/recording_signal.h"
#include "comm/recorder/session_recording.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <set>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {
std::atomic<bool> disk_stands_still{false};
}

// The C library's, for all that this program saves.
extern "C" int rename(const char* from, const char* to) noexcept {
  while (disk_stands_still) usleep(1000);
  return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

namespace distwrap::comm {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::json;
using ::testing::HasSubstr;

dw_op op_of(uint16_t kind, int64_t count, uint64_t seq) {
  static float data[1];
  dw_op op{};
  op.kind = kind;
  op.reduce = kind == DW_OP_ALL_REDUCE ? DW_REDUCE_SUM : 0;
  op.peer = -1;
  op.seq = seq;
  op.in.data = data;
  op.in.count = count;
  op.in.dtype = {2, 32, 1};
  op.out = op.in;
  return op;
}

RecordedGroup world_of(int size) {
  RecordedGroup group;
  memcpy(group.name.data(), "world", 6);
  memcpy(group.backend.data(), "gloo", 5);
  group.uid = 0x1234;
  group.rank = 1;
  group.size = size;
  for (int r = 0; r < size; ++r) group.ranks[static_cast<size_t>(r)] = r;
  return group;
}

class RecorderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/recorder_test_XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
    recorder_ = Recorder::make();
    ASSERT_NE(recorder_, nullptr);
  }
  void TearDown() override { fs::remove_all(folder_); }

  json saved(const Recording& recording) {
    EXPECT_TRUE(recording.save("test")) << strerror(errno);
    return json::parse(std::ifstream(recording.path()));
  }
  json saved() {
    return saved(Recording(*recorder_, {"job", "host", 1, 2}, folder_));
  }

  std::string folder_;
  std::unique_ptr<Recorder> recorder_;
  Recorder::Numbers numbers_;
};

TEST_F(RecorderTest, TellsWhatAnOperationWas) {
  const uint16_t group = recorder_->add_group(world_of(2));
  const dw_op op = op_of(DW_OP_ALL_REDUCE, 256, 17);
  const uint64_t number =
      recorder_->begin(numbers_, group, op.kind, op, Recorder::kInPlace, "");
  Record record;
  ASSERT_TRUE(recorder_->read(number, &record));
  EXPECT_EQ(record.kind, DW_OP_ALL_REDUCE);
  EXPECT_EQ(record.seq, 17u);
  EXPECT_EQ(record.reduce, DW_REDUCE_SUM);
  EXPECT_EQ(record.in_count, 256);
  EXPECT_EQ(record.peer, -1);
  EXPECT_TRUE(record.in_place);
  EXPECT_FALSE(record.async);
  EXPECT_EQ(record.ended, 0u);
  EXPECT_EQ(record.started, record.submitted);
  EXPECT_EQ(record.outcome, Recorder::kRunning);
  recorder_->end(number, Recorder::kDone);
  ASSERT_TRUE(recorder_->read(number, &record));
  EXPECT_GE(record.ended, record.submitted);
  EXPECT_EQ(record.outcome, Recorder::kDone);
}

TEST_F(RecorderTest, AMessageHasATagAndAPeer) {
  dw_op op = op_of(DW_OP_SEND, 3, 0);
  op.out = {};
  op.peer = 5;
  op.tag = 42;
  Record record;
  ASSERT_TRUE(recorder_->read(recorder_->begin(numbers_, 0, op.kind, op, 0, ""),
                              &record));
  EXPECT_EQ(record.tag, 42u);
  EXPECT_EQ(record.seq, 0u);
  EXPECT_EQ(record.peer, 5);
}

TEST_F(RecorderTest, AnAsynchronousOperationStartsLater) {
  const dw_op op = op_of(DW_OP_BROADCAST, 1, 1);
  const uint64_t number =
      recorder_->begin(numbers_, 0, op.kind, op, Recorder::kAsync, "");
  Record record;
  ASSERT_TRUE(recorder_->read(number, &record));
  EXPECT_EQ(record.started, 0u);
  recorder_->started(number);
  ASSERT_TRUE(recorder_->read(number, &record));
  EXPECT_GE(record.started, record.submitted);
}

TEST_F(RecorderTest, LabelsAreCutBetweenCharacters) {
  const dw_op op = op_of(DW_OP_BARRIER, 0, 1);
  const std::string exact(63, 'x');
  Record record;
  ASSERT_TRUE(
      recorder_->read(recorder_->begin(numbers_, 0, op.kind, op,
                                       Recorder::kLabelled, exact + "y"),
                      &record));
  EXPECT_EQ(record.label.data(), exact);
  const std::string wide = std::string(62, 'x') + "\xc3\xa4";
  ASSERT_TRUE(recorder_->read(
      recorder_->begin(numbers_, 0, op.kind, op, Recorder::kLabelled, wide),
      &record));
  EXPECT_EQ(record.label.data(), std::string(62, 'x'));
  // The next one in its place has none.
  ASSERT_TRUE(recorder_->read(recorder_->begin(numbers_, 0, op.kind, op, 0, ""),
                              &record));
  EXPECT_STREQ(record.label.data(), "");
}

TEST_F(RecorderTest, KeepsTheLastOnesAndEndsOnlyItsOwn) {
  const dw_op op = op_of(DW_OP_BARRIER, 0, 1);
  const uint64_t early = recorder_->begin(numbers_, 0, op.kind, op, 0, "");
  uint64_t last = early;
  for (size_t i = 0; i < Recorder::kEntries; ++i)
    last = recorder_->begin(numbers_, 0, op.kind, op, 0, "");
  Record record;
  EXPECT_FALSE(recorder_->read(early, &record));
  recorder_->end(early, Recorder::kDone);
  ASSERT_TRUE(recorder_->read(last, &record));
  EXPECT_EQ(record.ended, 0u);
  EXPECT_GE(saved().at("overwritten"), 1);
  EXPECT_FALSE(recorder_->read(0, &record));
  EXPECT_FALSE(recorder_->read(last + 1, &record));
}

// Numbers that a group set aside before it slept are of old places.
TEST_F(RecorderTest, AWriterThatSleptTakesNoNewersPlace) {
  const dw_op op = op_of(DW_OP_BARRIER, 0, 1);
  Recorder::Numbers sleeper;
  for (int i = 0; i < 4; ++i) recorder_->begin(sleeper, 0, op.kind, op, 0, "");
  std::vector<uint64_t> newest;
  for (size_t i = 0; i < Recorder::kEntries; ++i) {
    if (newest.size() == 2000) newest.erase(newest.begin());
    newest.push_back(recorder_->begin(numbers_, 0, op.kind, op, 0, ""));
  }
  Record record;
  for (int i = 0; i < 32; ++i)
    EXPECT_TRUE(recorder_->read(
        recorder_->begin(sleeper, 0, op.kind, op, 0, ""), &record));
  for (const uint64_t number : newest)
    EXPECT_TRUE(recorder_->read(number, &record)) << number;
}

// Many groups in turns, none of which needs a number again soon.
TEST_F(RecorderTest, KeepsTwoThousandOfAThousandGroups) {
  const dw_op op = op_of(DW_OP_BARRIER, 0, 1);
  std::vector<Recorder::Numbers> groups(1000);
  std::vector<uint64_t> numbers;
  for (int turns = 0; turns < 20; ++turns)
    for (Recorder::Numbers& group : groups)
      numbers.push_back(recorder_->begin(group, 0, op.kind, op, 0, ""));
  Record record;
  for (size_t i = numbers.size() - 2000; i < numbers.size(); ++i)
    EXPECT_TRUE(recorder_->read(numbers[i], &record)) << i;
}

TEST_F(RecorderTest, TheFileSaysItAll) {
  const uint16_t group = recorder_->add_group(world_of(2));
  uint64_t number = recorder_->begin(numbers_, group, DW_OP_ALL_REDUCE,
                                     op_of(DW_OP_ALL_REDUCE, 256, 1),
                                     Recorder::kLabelled, "say \"hi\"\n");
  recorder_->end(number, Recorder::kDone);
  number = recorder_->begin(numbers_, group, DW_OP_BROADCAST,
                            op_of(DW_OP_BROADCAST, 4, 2), 0, "");
  recorder_->end(
      number, static_cast<uint16_t>(Recorder::kFailed +
                                    static_cast<uint16_t>(Reason::kTimedOut)));
  recorder_->begin(numbers_, group, DW_OP_BARRIER, op_of(DW_OP_BARRIER, 0, 3),
                   Recorder::kAsync, "");
  const json file = saved();
  EXPECT_EQ(file.at("format"), "distwrap recording");
  EXPECT_EQ(file.at("version"), 1);
  EXPECT_EQ(file.at("rank"), 1);
  EXPECT_EQ(file.at("pid"), getpid());
  const json& world = file.at("groups").at(0);
  EXPECT_EQ(world.at("name"), "world");
  EXPECT_EQ(world.at("uid"), "0000000000001234");
  EXPECT_EQ(world.at("ranks"), json({0, 1}));
  const json& done = file.at("operations").at(0);
  EXPECT_EQ(done.at("op"), "all_reduce");
  EXPECT_EQ(done.at("label"), "say \"hi\"\n");
  EXPECT_EQ(done.at("dtype"), "f32");
  EXPECT_EQ(done.at("reduce"), "sum");
  EXPECT_EQ(done.at("state"), "done");
  EXPECT_GE(done.at("ended_ns"), done.at("submitted_ns"));
  // Near to now: clocks agree.
  EXPECT_LT(std::abs(file.at("time_ns").get<int64_t>() -
                     done.at("ended_ns").get<int64_t>()),
            int64_t{60'000'000'000});
  EXPECT_EQ(file.at("operations").at(1).at("state"), "kTimedOut");
  EXPECT_EQ(file.at("operations").at(2).at("state"), "queued");
  EXPECT_FALSE(file.at("operations").at(2).contains("ended_ns"));
}

TEST_F(RecorderTest, NumbersOfGroupsAreUsedAgain) {
  EXPECT_EQ(recorder_->add_group(world_of(2)), 0);
  for (size_t i = 1; i < Recorder::kMostGroups; ++i)
    recorder_->add_group(world_of(3));
  RecordedGroup group;
  ASSERT_TRUE(recorder_->read_group(0, &group));
  EXPECT_EQ(group.size, 2);
  EXPECT_EQ(recorder_->add_group(world_of(4)), 0);
  ASSERT_TRUE(recorder_->read_group(0, &group));
  EXPECT_EQ(group.size, 4);
}

TEST_F(RecorderTest, OperationsOfAGroupLongGoneAreNotAnothers) {
  const uint16_t group = recorder_->add_group(world_of(2));
  recorder_->begin(numbers_, group, DW_OP_BARRIER, op_of(DW_OP_BARRIER, 0, 1),
                   0, "");
  for (size_t i = 0; i < Recorder::kMostGroups; ++i)
    recorder_->add_group(world_of(3));
  Recorder::Numbers others;
  recorder_->begin(others, group, DW_OP_BARRIER, op_of(DW_OP_BARRIER, 0, 2), 0,
                   "");
  const json operations = saved().at("operations");
  EXPECT_EQ(operations.at(0).at("group"), -1);
  EXPECT_EQ(operations.at(1).at("group"), group);
}

TEST_F(RecorderTest, ReadersNeverSeeHalfAnEntry) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> writers;
  for (int w = 0; w < 2; ++w)
    writers.emplace_back([&, w] {
      Recorder::Numbers numbers;
      for (int64_t i = 1; !stop; ++i) {
        dw_op op = op_of(DW_OP_ALL_REDUCE, i * 2 + w, 0);
        op.seq = static_cast<uint64_t>(op.in.count);
        op.peer = static_cast<int32_t>(op.in.count);
        recorder_->end(recorder_->begin(numbers, 0, op.kind, op, 0, ""),
                       Recorder::kDone);
      }
    });
  int read = 0;
  for (int i = 0; i < 200'000 || read < 1000; ++i) {
    Record record;
    const uint64_t next = recorder_->next();
    if (next < 2) continue;
    if (!recorder_->read(next > 40 ? next - 40 : 1, &record)) continue;
    ++read;
    ASSERT_EQ(record.seq, static_cast<uint64_t>(record.in_count));
    ASSERT_EQ(record.peer, static_cast<int32_t>(record.in_count));
    ASSERT_EQ(record.in_count, record.out_count);
  }
  stop = true;
  for (std::thread& writer : writers) writer.join();
}

TEST_F(RecorderTest, TheFileIsPrivateAndWhole) {
  const Recording recording(*recorder_, {"job", "host", 0, 1},
                            folder_ + "/made");
  ASSERT_TRUE(recording.save("test"));
  struct stat info = {};
  ASSERT_EQ(stat(recording.path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_EQ(stat(recording.folder().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_EQ(std::distance(fs::directory_iterator(recording.folder()), {}), 1);
  // In a place of all users only in a parent of ours alone.
  const std::string parent = folder_ + "/parent";
  const Recording inside(*recorder_, {"job", "host", 0, 1}, parent + "/job",
                         parent);
  ASSERT_TRUE(inside.save("test"));
  ASSERT_EQ(stat(parent.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  ASSERT_EQ(chmod(parent.c_str(), 0777), 0);
  EXPECT_FALSE(inside.save("test"));
  EXPECT_EQ(errno, EPERM);
  // Nowhere to write.
  const Recording lost(*recorder_, {"job", "host", 0, 1}, "/proc/none");
  EXPECT_FALSE(lost.save("test"));
}

class KeptRecordings : public RecorderTest {
 protected:
  // Saves a recording of its own job, `age` seconds ago.
  void save(const std::string& job, int age) {
    const auto recording =
        SessionRecording::make({true, "", folder_, 0}, {job, "host", 0, 1});
    ASSERT_NE(recording, nullptr);
    const auto path = recording->save("test");
    ASSERT_TRUE(path.ok()) << path.status();
    EXPECT_EQ(*path, folder_ + "/recording-" + job + "/rank-0.json");
    fs::last_write_time(
        folder_ + "/recording-" + job,
        fs::file_time_type::clock::now() - std::chrono::seconds(age));
  }
  std::set<std::string> left() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_))
      names.insert(entry.path().filename());
    return names;
  }
};

TEST_F(KeptRecordings, AreTheNewestSixteen) {
  std::set<std::string> expected = {"another folder"};
  fs::create_directory(folder_ + "/another folder");
  for (int job = 0; job < 20; ++job) {
    save(std::to_string(job), 1000 - job);
    if (job >= 4) expected.insert("recording-" + std::to_string(job));
  }
  EXPECT_EQ(left(), expected);
}

// The newest stays even when it is larger than all may be together.
TEST_F(KeptRecordings, TakeSixtyFourMebibytesTogether) {
  const auto grow = [&](const std::string& job, uintmax_t mebibytes) {
    const std::string file = folder_ + "/recording-" + job + "/rank-1.json";
    std::ofstream(file) << "";
    fs::resize_file(file, mebibytes << 20);
  };
  save("oldest", 90);
  save("older", 80);
  grow("older", 40);
  save("old", 70);
  EXPECT_EQ(left().size(), 3u) << "40 MiB are not too much";
  grow("old", 20);
  save("new", 60);
  EXPECT_EQ(left().size(), 4u) << "60 MiB neither";
  grow("new", 8);
  save("newer", 50);
  EXPECT_EQ(left(), (std::set<std::string>{"recording-old", "recording-new",
                                           "recording-newer"}));
  grow("newer", 70);
  save("newer", 50);
  EXPECT_EQ(left(), (std::set<std::string>{"recording-newer"}));
}

// On a disk that stands still the file is there later, not the error.
TEST_F(RecorderTest, AFailureIsNotHeldUpByTheDisk) {
  const auto recording = SessionRecording::make(
      {true, folder_ + "/slow", "", 0}, {"job", "host", 0, 1});
  ASSERT_NE(recording, nullptr);
  disk_stands_still = true;
  std::thread impatient([] {
    for (int i = 0; i < 600 && disk_stands_still; ++i) usleep(50'000);
    EXPECT_FALSE(disk_stands_still.exchange(false))
        << "the disk was waited for";
  });
  recording->save_after_failure();
  const std::string path = folder_ + "/slow/rank-0.json";
  EXPECT_FALSE(fs::exists(path));
  disk_stands_still = false;
  impatient.join();
  recording->wait_until_saved(Deadline::never());
  EXPECT_TRUE(fs::exists(path));
}

TEST_F(RecorderTest, ASignalSavesAllAndLeavesOthersAlone) {
  const Recording one(*recorder_, {"job", "host", 0, 2}, folder_);
  const Recording two(*recorder_, {"job", "host", 1, 2}, folder_);
  {
    const RecordingSignal first(one, SIGUSR2);
    const RecordingSignal second(two, SIGUSR2);
    errno = 77;
    raise(SIGUSR2);
    EXPECT_EQ(errno, 77);
    for (const Recording* recording : {&one, &two}) {
      const json file = json::parse(std::ifstream(recording->path()));
      EXPECT_EQ(file.at("cause"), "signal");
    }
  }
  struct sigaction now = {};
  ASSERT_EQ(sigaction(SIGUSR2, nullptr, &now), 0);
  EXPECT_EQ(now.sa_handler, SIG_DFL);
  // The program's own handler stays.
  signal(SIGUSR2, SIG_IGN);
  fs::remove(one.path());
  {
    const RecordingSignal again(one, SIGUSR2);
    raise(SIGUSR2);
    EXPECT_FALSE(fs::exists(one.path()));
  }
  ASSERT_EQ(sigaction(SIGUSR2, nullptr, &now), 0);
  EXPECT_EQ(now.sa_handler, SIG_IGN);
  signal(SIGUSR2, SIG_DFL);
}

TEST(PlainJson, WritesWhatAParserReads) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  PlainJson writer(ends[1]);
  writer.raw("[").number(std::numeric_limits<int64_t>::min());
  writer.raw(",").number(std::numeric_limits<uint64_t>::max());
  writer.raw(",").hex(0xabc);
  writer.raw(",").text("a\"\\\x01\xc3\xa4");
  writer.raw(",").text("\xff-");
  writer.raw("]");
  ASSERT_TRUE(writer.flush());
  char text[512];
  const ssize_t size = read(ends[0], text, sizeof text);
  ASSERT_GT(size, 0);
  const auto parsed = json::parse(std::string(text, static_cast<size_t>(size)));
  EXPECT_EQ(parsed.at(0), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(parsed.at(1), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(parsed.at(2), "0000000000000abc");
  EXPECT_EQ(parsed.at(3), "a\"\\\x01\xc3\xa4");
  EXPECT_EQ(parsed.at(4), "?-");
  close(ends[0]);
  close(ends[1]);
  PlainJson closed(-1);
  EXPECT_FALSE(closed.raw("x").flush());
}

}  // namespace
}  // namespace distwrap::comm
