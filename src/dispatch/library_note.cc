#include "dispatch/library_note.h"

#include "distwrap/registration.h"
#include "distwrap/status.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/string_view.h>

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <fstream>
#include <utility>

namespace distwrap::dispatch {
namespace {

// More than any linker writes: bounds of the memory that a bad file can ask
// for.
constexpr uint64_t kMostSegments = 1024, kMostNoteBytes = 1 << 20;

absl::Status refuse(const std::string& path, std::string what,
                    std::string expected, std::string actual) {
  return make_error({.reason = Reason::kPluginRefused,
                     .what = absl::StrCat(path, " ", what),
                     .op = "load_library",
                     .expected = std::move(expected),
                     .actual = std::move(actual),
                     .next_step = "build the library against this version of "
                                  "libdistwrap_tensor.so"});
}

// The bytes of a file from an offset; fewer at its end.
std::string read(std::ifstream& file, uint64_t offset, uint64_t size) {
  std::string bytes(size, 0);
  file.clear();
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(bytes.data(), static_cast<std::streamsize>(size));
  bytes.resize(
      static_cast<size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return bytes;
}

template <class T>
bool get(const std::string& bytes, T* out) {
  if (bytes.size() < sizeof *out) return false;
  std::memcpy(out, bytes.data(), sizeof *out);
  return true;
}

size_t padded(size_t size) { return (size + 3) / 4 * 4; }

// Judges the notes of one segment, and counts those of blocks.
absl::Status judge_segment(absl::string_view notes, const std::string& path,
                           int* found) {
  Elf64_Nhdr header;
  while (get(std::string(notes.substr(0, sizeof header)), &header)) {
    notes.remove_prefix(sizeof header);
    const size_t name = padded(header.n_namesz), size = padded(header.n_descsz);
    if (name > notes.size() || size > notes.size() - name) break;
    const absl::string_view owner = notes.substr(0, header.n_namesz);
    const absl::string_view text = notes.substr(name, header.n_descsz);
    notes.remove_prefix(name + size);
    if (owner != absl::string_view("DWO\0", 4)) continue;
    BlockNote note;
    if (header.n_type != 1 || !get(std::string(text), &note)) {
      return refuse(path, "has a note that cannot be read", "type 1, 16 bytes",
                    absl::StrCat("type ", header.n_type, ", ", header.n_descsz,
                                 " bytes"));
    }
    ++*found;
    absl::Status status = judge_note(note, path);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status judge_note(const BlockNote& note, const std::string& path) {
  constexpr char kWhat[] = "was built for another core";
  if (note.version != DW_BLOCK_VERSION) {
    return refuse(path, kWhat, absl::StrCat("version ", DW_BLOCK_VERSION),
                  absl::StrCat("version ", note.version));
  }
  if (note.sanitizer != DW_SANITIZER) {
    return refuse(path, kWhat, absl::StrCat("sanitizer ", DW_SANITIZER),
                  absl::StrCat("sanitizer ", note.sanitizer));
  }
  if (note.cxx_abi != __GXX_ABI_VERSION) {
    return refuse(path, kWhat, absl::StrCat("C++ ABI ", __GXX_ABI_VERSION),
                  absl::StrCat("C++ ABI ", note.cxx_abi));
  }
  return absl::OkStatus();
}

absl::Status judge_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr header;
  if (!file) {
    return make_error({.reason = Reason::kPluginNotFound,
                       .what = absl::StrCat("cannot open ", path),
                       .op = "load_library",
                       .next_step = "give the path of a library of operators, "
                                    "or the name of one in lib/distwrap/ops"});
  }
  if (!get(read(file, 0, sizeof header), &header) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_type != ET_DYN ||
      header.e_phnum > kMostSegments ||
      header.e_phentsize != sizeof(Elf64_Phdr)) {
    return refuse(path, "is no shared library", "a 64-bit ELF library", "");
  }
  int found = 0;
  for (uint64_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!get(read(file, header.e_phoff + i * sizeof segment, sizeof segment),
             &segment)) {
      return refuse(path, "is cut short", "its program headers", "");
    }
    if (segment.p_type != PT_NOTE || segment.p_filesz > kMostNoteBytes)
      continue;
    absl::Status status = judge_segment(
        read(file, segment.p_offset, segment.p_filesz), path, &found);
    if (!status.ok()) return status;
  }
  if (found > 0) return absl::OkStatus();
  return refuse(path, "is no library of operators",
                "a DW_OPERATORS block and its note", "");
}

}  // namespace distwrap::dispatch
