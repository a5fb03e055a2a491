// Copies against memcpy: every way, lengths around a line, a step and a group
// of pages, all alignments that matter, and the bytes around.
#include "copy.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace shm_backend {
namespace {

using dw_hostmem::copy_trailing;
using dw_hostmem::trails;

constexpr size_t kGroup = 16 << 10;
constexpr size_t kLengths[] = {
    0,    1,    15,   16,   63,   64,         65,     127,
    1000, 1024, 4096, 4097, 8191, kGroup - 1, kGroup, 2 * kGroup + 1025};
constexpr size_t kShifts[] = {0, 1, 8, 31, 63, 64};
constexpr size_t kAround = 128;

using Copy = void (*)(void* to, const void* from, size_t bytes);

class CopyTest : public ::testing::TestWithParam<Copy> {};

TEST_P(CopyTest, MovesTheBytesAndNoOthers) {
  std::string from(2 * kGroup + 2048, '\0');
  for (size_t i = 0; i < from.size(); ++i)
    from[i] = static_cast<char>(i * 131 + i / 251);
  std::vector<char> memory(from.size() + 3 * kAround);
  for (const size_t bytes : kLengths)
    for (const size_t shift : kShifts) {
      SCOPED_TRACE(::testing::Message() << bytes << " bytes at " << shift);
      std::fill(memory.begin(), memory.end(), '\x5a');
      char* const to = memory.data() + kAround + shift;
      GetParam()(to, from.data() + shift / 2, bytes);
      EXPECT_EQ(std::string(to, bytes), from.substr(shift / 2, bytes));
      EXPECT_EQ(std::string(memory.data(), kAround + shift),
                std::string(kAround + shift, '\x5a'));
      const size_t behind = memory.size() - kAround - shift - bytes;
      EXPECT_EQ(std::string(to + bytes, behind), std::string(behind, '\x5a'));
    }
}

template <bool in_memory, bool past>
void fetch(void* to, const void* from, size_t bytes) {
  shm_backend::fetch(to, from, bytes, in_memory, past);
}

INSTANTIATE_TEST_SUITE_P(
    All, CopyTest,
    ::testing::Values(copy, copy_trailing, copy_by_vectors, copy_past_caches,
                      fetch<false, false>, fetch<false, true>,
                      fetch<true, false>, fetch<true, true>));

TEST(Copy, KnowsWhatFollowsWhatIsRead) {
  alignas(4096) static char memory[3 * 4096];
  const auto at = [](size_t offset) { return memory + offset; };
  for (const size_t page : {size_t{0}, size_t{4096}}) {
    EXPECT_FALSE(trails(at(page + 64), at(64)));
    EXPECT_TRUE(trails(at(page + 65), at(64)));
    EXPECT_TRUE(trails(at(page + 95), at(64)));
    EXPECT_FALSE(trails(at(page + 96), at(64)));
    EXPECT_FALSE(trails(at(64), at(page + 65)));
    EXPECT_TRUE(trails(at(page + 4096 + 15), at(4095)));
  }
}

TEST(SideBySide, VisitsEverythingOnce) {
  for (const size_t bytes : kLengths) {
    std::vector<int> visits(bytes);
    side_by_side(bytes, [&](size_t at, size_t part) {
      ASSERT_LE(at + part, bytes);
      for (size_t i = at; i < at + part; ++i) ++visits[i];
    });
    EXPECT_EQ(visits, std::vector<int>(bytes, 1)) << bytes;
  }
}

}  // namespace
}  // namespace shm_backend
