#include "comm/recorder/recorder.h"

#include "algo/objects/utf8.h"
#include "base/log.h"

#include <algorithm>
#include <new>
#include <string.h>
#include <sys/mman.h>
#include <type_traits>

namespace distwrap::comm {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr auto kAcquire = std::memory_order_acquire;
constexpr auto kRelease = std::memory_order_release;

constexpr uint8_t kReduceBits = 0x0f;
constexpr int kStartShift = 32, kTicksShift = 8;

std::atomic<uint64_t> next_id{1};

}  // namespace

// One mapping, whose pages come when they are first written.
struct Recorder::Memory {
  std::array<Entry, kEntries> entries;
  std::array<Label, kEntries> labels;
  std::array<GroupLine, kMostGroups> groups;
};

std::unique_ptr<Recorder> Recorder::make() {
  void* const memory = mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    base::log(base::LogLevel::kWarning,
              "no memory to record operations in; they are not recorded");
    return nullptr;
  }
  // Mapped memory is zero, the initial value of all members; unwritten, it
  // costs nothing.
  return std::unique_ptr<Recorder>(new Recorder(*static_cast<Memory*>(memory)));
}

constinit thread_local Recorder::ThreadNumbers Recorder::thread_numbers_;

Recorder::Recorder(Memory& memory)
    : id_(next_id.fetch_add(1, kRelaxed)),
      memory_(memory),
      entries_(memory.entries) {}

Recorder::~Recorder() { munmap(&memory_, sizeof(Memory)); }

std::array<char, 64> recorded_text(absl::string_view text) {
  std::array<char, 64> kept = {};
  const absl::string_view cut =
      objects::whole_characters(text.substr(0, kept.size() - 1));
  memcpy(kept.data(), cut.data(), cut.size());
  return kept;
}

// Sets aside as many numbers as the writer is likely to need before they are
// old.
void Recorder::set_aside(Numbers& numbers) {
  numbers.count_ = numbers.next_ == numbers.end_
                       ? std::min(numbers.count_ * 2, Numbers::kMost)
                       : std::max<uint64_t>(numbers.count_ / 2, 1);
  numbers.next_ = next_.fetch_add(numbers.count_, kRelaxed);
  numbers.end_ = numbers.next_ + numbers.count_;
}

void Recorder::keep_label(uint64_t number, absl::string_view label) {
  const std::array<char, 64> text = recorded_text(label);
  std::array<uint64_t, 8> words;
  memcpy(words.data(), text.data(), sizeof words);
  Label& line = memory_.labels[number % kEntries];
  for (size_t i = 0; i < words.size(); ++i)
    line.words[i].store(words[i], kRelease);
}

void Recorder::started(uint64_t number) {
  Entry& entry = entries_[number % kEntries];
  if (entry.number.load(kRelaxed) != number) return;
  const uint64_t passed = std::min<uint64_t>(
      (base::ticks() - entry.submitted.load(kRelaxed)) >> kTicksShift,
      UINT32_MAX - 1);
  // 0 stands for an operation that has not started.
  entry.state.fetch_or((passed + 1) << kStartShift, kRelease);
}

bool Recorder::read(uint64_t number, Record* record) const {
  const Entry& entry = entries_[number % kEntries];
  if (number == 0 || entry.number.load(kAcquire) != number) return false;
  const uint64_t order = entry.order.load(kAcquire);
  const uint64_t what = entry.what.load(kAcquire);
  const uint64_t state = entry.state.load(kAcquire);
  const auto flags = static_cast<uint8_t>(what >> 8);
  record->number = number;
  record->submitted = entry.submitted.load(kAcquire);
  record->ended = entry.ended.load(kAcquire);
  record->in_count = entry.in_count.load(kAcquire);
  record->out_count = entry.out_count.load(kAcquire);
  record->kind = static_cast<uint8_t>(what);
  record->reduce = flags & kReduceBits;
  record->async = (flags & kAsync) != 0;
  record->in_place = (flags & kInPlace) != 0;
  record->in_batch = (flags & kInBatch) != 0;
  record->dtype = {static_cast<uint8_t>(what >> 16),
                   static_cast<uint8_t>(what >> 24), 1};
  record->peer = static_cast<int32_t>(static_cast<uint32_t>(what >> 32));
  const bool message = record->kind == DW_OP_SEND || record->kind == DW_OP_RECV;
  record->seq = message ? 0 : order;
  record->tag = message ? order : 0;
  record->outcome = static_cast<uint16_t>(state);
  record->group = static_cast<uint16_t>(state >> 16);
  if (record->outcome == kRunning && record->ended != 0)
    record->outcome = kDone;
  const uint64_t start = state >> kStartShift;
  // A caller that waits starts at once.
  record->started = !record->async ? record->submitted
                    : start == 0
                        ? 0
                        : record->submitted + ((start - 1) << kTicksShift);
  std::array<uint64_t, 8> words = {};
  if ((flags & kLabelled) != 0)
    for (size_t i = 0; i < words.size(); ++i)
      words[i] = memory_.labels[number % kEntries].words[i].load(kAcquire);
  memcpy(record->label.data(), words.data(), sizeof words);
  return entry.number.load(kAcquire) == number;
}

uint16_t Recorder::add_group(const RecordedGroup& group) {
  RecordedGroup kept = group;
  kept.since = next();
  std::array<uint64_t, std::tuple_size_v<decltype(GroupLine::words)>> words =
      {};
  static_assert(std::is_trivially_copyable_v<RecordedGroup>);
  memcpy(words.data(), &kept, sizeof kept);
  base::MutexLock lock(mutex_);
  const uint64_t number = group_count_++ % kMostGroups;
  GroupLine& line = memory_.groups[number];
  const uint64_t version = line.version.load(kRelaxed);
  line.version.store(version + 1, kRelaxed);
  for (size_t i = 0; i < words.size(); ++i)
    line.words[i].store(words[i], kRelease);
  line.version.store(version + 2, kRelease);
  return static_cast<uint16_t>(number);
}

bool Recorder::read_group(uint16_t number, RecordedGroup* group) const {
  if (number >= kMostGroups) return false;
  const GroupLine& line = memory_.groups[number];
  const uint64_t version = line.version.load(kAcquire);
  if (version == 0 || version % 2 != 0) return false;
  std::array<uint64_t, std::tuple_size_v<decltype(GroupLine::words)>> words;
  for (size_t i = 0; i < words.size(); ++i)
    words[i] = line.words[i].load(kAcquire);
  memcpy(static_cast<void*>(group), words.data(), sizeof *group);
  return line.version.load(kAcquire) == version;
}

}  // namespace distwrap::comm
