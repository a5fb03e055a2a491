#include "plugin/elf_note.h"

#include "scratch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <functional>
#include <random>
#include <string>

namespace distwrap::plugin {
namespace {

absl::StatusOr<dw_note> note_of(const std::string& bytes) {
  return find_note(
      [&](uint64_t offset, size_t size) {
        return offset < bytes.size() ? bytes.substr(offset, size)
                                     : std::string();
      },
      bytes.size(), "x.so");
}

const std::string& good() {
  static const std::string* const kBytes =
      new std::string(read_file(test_plugin("echo_c")));
  return *kBytes;
}

// The good file with its header changed.
std::string with_header(const std::function<void(Elf64_Ehdr*)>& edit) {
  std::string bytes = good();
  Elf64_Ehdr header;
  memcpy(&header, bytes.data(), sizeof header);
  edit(&header);
  memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

// The good file with the program headers of a type changed.
std::string with_segments(uint32_t type,
                          const std::function<void(Elf64_Phdr*)>& edit) {
  std::string bytes = good();
  Elf64_Ehdr header;
  memcpy(&header, bytes.data(), sizeof header);
  for (size_t i = 0; i < header.e_phnum; ++i) {
    char* const at = bytes.data() + header.e_phoff + i * sizeof(Elf64_Phdr);
    Elf64_Phdr segment;
    memcpy(&segment, at, sizeof segment);
    if (segment.p_type == type) edit(&segment);
    memcpy(at, &segment, sizeof segment);
  }
  return bytes;
}

// The place of the note, recognised by its sizes.
size_t note_place(const std::string& bytes) {
  const size_t owner = bytes.find(std::string("DWP\0", 4));
  EXPECT_NE(owner, std::string::npos);
  return owner - 12;
}

TEST(ElfNote, OfAGoodFile) {
  const absl::StatusOr<dw_note> note = note_of(good());
  ASSERT_TRUE(note.ok()) << note.status();
  EXPECT_EQ(note->abi_major, DW_ABI_MAJOR);
  EXPECT_EQ(note->abi_minor, DW_ABI_MINOR);
  EXPECT_EQ(note->sanitizer, uint32_t{DW_SANITIZER});
  EXPECT_EQ(note->flags, 0u);
  EXPECT_TRUE(check_note(*note, "x.so").ok());
  EXPECT_TRUE(read_note(test_plugin("echo_c")).ok());
}

TEST(ElfNote, NewerMinorIsTaken) {
  const absl::StatusOr<dw_note> note = read_note(test_plugin("echo_v1_65535"));
  ASSERT_TRUE(note.ok()) << note.status();
  EXPECT_EQ(note->abi_minor, 65535);
}

TEST(ElfNote, NamesWhatIsWrongWithTheHeader) {
  expect_refused(note_of("").status(), Refusal::kEmpty);
  expect_refused(note_of("#!/bin/sh\n").status(), Refusal::kNotElf);
  expect_refused(note_of("\x7f").status(), Refusal::kTruncated);
  expect_refused(note_of(std::string("\x7f"
                                     "ELF",
                                     4))
                     .status(),
                 Refusal::kTruncated);
  expect_refused(note_of(with_header([](auto* h) {
                   h->e_ident[EI_CLASS] = ELFCLASS32;
                 })).status(),
                 Refusal::kWrongClass);
  expect_refused(note_of(with_header([](auto* h) {
                   h->e_ident[EI_DATA] = ELFDATA2MSB;
                 })).status(),
                 Refusal::kWrongByteOrder);
  expect_refused(
      note_of(with_header([](auto* h) { h->e_machine = EM_S390; })).status(),
      Refusal::kWrongMachine, "got 22");
  expect_refused(
      note_of(with_header([](auto* h) { h->e_type = ET_EXEC; })).status(),
      Refusal::kNotLibrary);
  expect_refused(
      note_of(with_header([](auto* h) { h->e_phentsize = 32; })).status(),
      Refusal::kMalformed);
  expect_refused(
      note_of(with_header([](auto* h) { h->e_phnum = 0xffff; })).status(),
      Refusal::kMalformed);
  expect_refused(note_of(with_header([](auto* h) {
                   h->e_phoff = UINT64_MAX - 8;
                 })).status(),
                 Refusal::kTruncated);
  expect_refused(note_of(with_header([](auto* h) { h->e_phnum = 0; })).status(),
                 Refusal::kNoNote);
}

TEST(ElfNote, NamesWhatIsWrongWithSegments) {
  expect_refused(
      note_of(with_segments(PT_NOTE, [](auto* s) { s->p_type = PT_NULL; }))
          .status(),
      Refusal::kNoNote);
  expect_refused(
      note_of(with_segments(PT_NOTE, [](auto* s) { s->p_offset = UINT64_MAX; }))
          .status(),
      Refusal::kTruncated);
  expect_refused(
      note_of(with_segments(PT_LOAD, [](auto* s) { s->p_filesz = UINT64_MAX; }))
          .status(),
      Refusal::kTruncated);
  expect_refused(
      note_of(with_segments(PT_NOTE, [](auto* s) { s->p_filesz -= 1; }))
          .status(),
      Refusal::kMalformed);
}

TEST(ElfNote, ForeignNotesAreNamed) {
  std::string bytes = good();
  bytes.replace(note_place(bytes) + 12, 4, std::string("ABC\0", 4));
  expect_refused(note_of(bytes).status(), Refusal::kForeignNote, "ABC");
}

TEST(ElfNote, BadNotes) {
  const auto edited = [](size_t offset, uint32_t value) {
    std::string bytes = good();
    memcpy(bytes.data() + note_place(bytes) + offset, &value, sizeof value);
    return bytes;
  };
  expect_refused(note_of(edited(8, 2)).status(), Refusal::kBadNote, "type");
  expect_refused(note_of(edited(4, 12)).status(), Refusal::kBadNote, "12");
  expect_refused(note_of(edited(4, UINT32_MAX)).status(), Refusal::kMalformed);
  expect_refused(note_of(edited(0, UINT32_MAX)).status(), Refusal::kMalformed);
}

TEST(ElfNote, ChecksWhatTheNoteSays) {
  dw_note note = {DW_ABI_MAJOR, 7, DW_SANITIZER, 0, 0};
  EXPECT_TRUE(check_note(note, "x.so").ok());
  note.abi_major = 2;
  expect_refused(check_note(note, "x.so"), Refusal::kWrongAbi, "2.7");
  note = {DW_ABI_MAJOR, 0, DW_SANITIZER_MEMORY, 0, 0};
  expect_refused(check_note(note, "x.so"), Refusal::kSanitizer,
                 "MemorySanitizer");
  note = {DW_ABI_MAJOR, 0, DW_SANITIZER, 8, 0};
  expect_refused(check_note(note, "x.so"), Refusal::kBadNote, "0x8");
  note = {DW_ABI_MAJOR, 0, DW_SANITIZER, 0, 1};
  expect_refused(check_note(note, "x.so"), Refusal::kBadNote);
}

TEST(ElfNote, EveryTruncationIsRefused) {
  std::vector<size_t> sizes = {0, 1, 4, 16, 63, 64, 65, 119};
  for (size_t i = 1; i <= 20; ++i) sizes.push_back(good().size() * i / 21);
  sizes.push_back(good().size() - 1);
  for (size_t size : sizes) {
    const absl::Status status = note_of(good().substr(0, size)).status();
    expect_refused(status, size == 0 ? Refusal::kEmpty : Refusal::kTruncated);
  }
}

// Any bytes give an answer; sanitizers find memory errors.
TEST(ElfNote, SurvivesMutations) {
  std::mt19937_64 random(20240607);
  const size_t place = note_place(good());
  std::string bytes = good();
  int taken = 0, refused = 0;
  for (int round = 0; round < 20000; ++round) {
    const size_t edits = 1 + random() % 6;
    for (size_t i = 0; i < edits; ++i) {
      // Mostly at the places that the parser reads.
      const size_t zones[][2] = {
          {0, 64}, {64, 720}, {place, place + 32}, {0, bytes.size()}};
      const auto& zone = zones[random() % 4];
      const size_t at = zone[0] + random() % (zone[1] - zone[0]);
      const char values[] = {'\0', '\x01', '\x7f', '\xff',
                             static_cast<char>(random())};
      const size_t run = random() % 4 == 0 ? 8 : 1;
      for (size_t k = at; k < std::min(at + run, bytes.size()); ++k)
        bytes[k] = values[random() % 5];
    }
    const size_t cut = random() % 8 == 0 ? random() % bytes.size() : 0;
    const absl::StatusOr<dw_note> note =
        cut == 0 ? note_of(bytes) : note_of(bytes.substr(0, cut));
    if (note.ok()) {
      ++taken;
    } else {
      ++refused;
      ASSERT_EQ(error_reason(note.status()), Reason::kPluginRefused);
    }
    if (random() % 4 == 0) bytes = good();
  }
  EXPECT_GT(taken, 100);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace distwrap::plugin
