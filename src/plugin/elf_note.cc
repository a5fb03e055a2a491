#include "plugin/elf_note.h"

#include "base/bytes.h"
#include "base/error.h"
#include "distwrap/abi/read.h"
#include "plugin/refusal.h"

#include <absl/cleanup/cleanup.h>
#include <absl/strings/escaping.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <optional>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace distwrap::plugin {
namespace {

#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kMachine = EM_AARCH64;
#else
#error "which ELF machine is this?"
#endif

// More than any linker writes. The limit bounds the memory that a bad file can
// request.
constexpr uint64_t kMaxProgramHeaders = 1024;
constexpr uint64_t kMaxNoteBytes = 1 << 20;

bool fits(uint64_t offset, uint64_t size, uint64_t file_size) {
  return offset <= file_size && size <= file_size - offset;
}

absl::string_view sanitizer_name(uint32_t kind) {
  switch (kind) {
    case DW_SANITIZER_NONE:
      return "no sanitizer";
    case DW_SANITIZER_ADDRESS:
      return "AddressSanitizer";
    case DW_SANITIZER_THREAD:
      return "ThreadSanitizer";
    case DW_SANITIZER_MEMORY:
      return "MemorySanitizer";
    default:
      return "an unknown sanitizer";
  }
}

// Copies a header from the file; the caller has checked that it fits.
template <class Struct>
bool get(ReadAt read, uint64_t offset, Struct* out) {
  const std::string bytes = read(offset, sizeof *out);
  if (bytes.size() != sizeof *out) return false;
  memcpy(out, bytes.data(), sizeof *out);
  return true;
}

class NoteFinder {
 public:
  NoteFinder(ReadAt read, uint64_t file_size, absl::string_view origin)
      : read_(read), file_size_(file_size), origin_(origin) {}

  absl::StatusOr<dw_note> find() {
    Elf64_Ehdr header;
    if (absl::Status status = read_header(&header); !status.ok()) return status;
    for (uint64_t i = 0; i < header.e_phnum; ++i) {
      Elf64_Phdr segment;
      if (!get(read_, header.e_phoff + i * sizeof segment, &segment))
        return truncated("program headers");
      // The dynamic linker maps segments without a check: a segment that
      // extends beyond the file would crash the process at its first access.
      if ((segment.p_type == PT_LOAD || segment.p_type == PT_NOTE ||
           segment.p_type == PT_DYNAMIC) &&
          !fits(segment.p_offset, segment.p_filesz, file_size_))
        return truncated(absl::StrCat("segment ", i));
      if (segment.p_type != PT_NOTE) continue;
      if (absl::Status status = read_notes(segment); !status.ok())
        return status;
    }
    if (note_.has_value()) return *note_;
    if (owners_.empty()) return refuse(Refusal::kNoNote, origin_);
    return refuse(
        Refusal::kForeignNote, origin_,
        {.expected = DW_NOTE_OWNER, .actual = absl::StrJoin(owners_, ", ")});
  }

 private:
  absl::Status truncated(absl::string_view what) const {
    return refuse(
        Refusal::kTruncated, origin_,
        {.about = absl::StrCat(what, " behind its ", file_size_, " bytes")});
  }
  absl::Status malformed(absl::string_view what) const {
    return refuse(Refusal::kMalformed, origin_, {.about = std::string(what)});
  }

  absl::Status read_header(Elf64_Ehdr* header) {
    if (file_size_ == 0) return refuse(Refusal::kEmpty, origin_);
    const std::string magic = read_(0, SELFMAG);
    if (absl::string_view(ELFMAG, SELFMAG).substr(0, magic.size()) != magic)
      return refuse(Refusal::kNotElf, origin_);
    if (file_size_ < sizeof *header || !get(read_, 0, header))
      return truncated("header");
    if (header->e_ident[EI_CLASS] != ELFCLASS64)
      return refuse(Refusal::kWrongClass, origin_,
                    {.expected = "ELF class 2",
                     .actual = absl::StrCat(header->e_ident[EI_CLASS])});
    if (header->e_ident[EI_DATA] != ELFDATA2LSB)
      return refuse(Refusal::kWrongByteOrder, origin_,
                    {.expected = "little-endian",
                     .actual = absl::StrCat(header->e_ident[EI_DATA])});
    if (header->e_machine != kMachine)
      return refuse(Refusal::kWrongMachine, origin_,
                    {.expected = absl::StrCat("ELF machine ", kMachine),
                     .actual = absl::StrCat(header->e_machine)});
    if (header->e_type != ET_DYN)
      return refuse(Refusal::kNotLibrary, origin_,
                    {.expected = absl::StrCat("ELF type ", ET_DYN),
                     .actual = absl::StrCat(header->e_type)});
    if (header->e_phentsize != sizeof(Elf64_Phdr))
      return malformed("size of program headers");
    if (header->e_phnum > kMaxProgramHeaders)
      return malformed("number of program headers");
    if (!fits(header->e_phoff, header->e_phnum * sizeof(Elf64_Phdr),
              file_size_))
      return truncated("program headers");
    // No code here reads section headers, but linkers write them last, so their
    // absence shows that a file was truncated.
    if (header->e_shoff != 0 &&
        !fits(header->e_shoff, uint64_t{header->e_shnum} * header->e_shentsize,
              file_size_))
      return truncated("section headers");
    return absl::OkStatus();
  }

  absl::Status read_notes(const Elf64_Phdr& segment) {
    if (segment.p_filesz > kMaxNoteBytes) return malformed("size of the notes");
    const std::string bytes = read_(segment.p_offset, segment.p_filesz);
    if (bytes.size() != segment.p_filesz) return truncated("notes");
    // Name and descriptor are padded to 4 bytes, or to 8 in segments of
    // alignment 8.
    const size_t align = segment.p_align == 8 ? 8 : 4;
    base::ByteReader in(bytes);
    const auto skip_padding = [&] {
      const size_t over = (bytes.size() - in.left()) % align;
      // The last note need not be padded.
      if (over != 0) in.bytes(std::min(align - over, in.left()));
    };
    while (in.left() > 0) {
      const uint32_t name_size = in.u32();
      const uint32_t size = in.u32();
      const uint32_t type = in.u32();
      absl::string_view owner = in.bytes(name_size);
      skip_padding();
      const absl::string_view descriptor = in.bytes(size);
      skip_padding();
      if (!in.ok()) return malformed("a note");
      if (owner.size() == sizeof DW_NOTE_OWNER &&
          memcmp(owner.data(), DW_NOTE_OWNER, owner.size()) == 0) {
        if (absl::Status status = take_note(type, descriptor); !status.ok())
          return status;
      } else if (owners_.size() < 8) {
        owner = owner.substr(0, std::min(owner.find('\0'), size_t{16}));
        owners_.push_back(absl::CHexEscape(owner));
      }
    }
    return absl::OkStatus();
  }

  absl::Status take_note(uint32_t type, absl::string_view descriptor) {
    if (type != DW_NOTE_TYPE)
      return refuse(Refusal::kBadNote, origin_,
                    {.expected = absl::StrCat("type ", DW_NOTE_TYPE),
                     .actual = absl::StrCat(type)});
    if (descriptor.size() < sizeof(dw_note))
      return refuse(Refusal::kBadNote, origin_,
                    {.expected = absl::StrCat(sizeof(dw_note), " bytes"),
                     .actual = absl::StrCat(descriptor.size())});
    dw_note note;
    memcpy(&note, descriptor.data(), sizeof note);
    if (note_.has_value() && memcmp(&*note_, &note, sizeof note) != 0)
      return refuse(Refusal::kBadNote, origin_,
                    {.about = "two notes that differ"});
    note_ = note;
    return absl::OkStatus();
  }

  ReadAt read_;
  const uint64_t file_size_;
  const absl::string_view origin_;
  std::optional<dw_note> note_;
  std::vector<std::string> owners_;
};

}  // namespace

absl::StatusOr<dw_note> find_note(ReadAt read, uint64_t file_size,
                                  absl::string_view origin) {
  return NoteFinder(read, file_size, origin).find();
}

absl::Status check_note(const dw_note& note, absl::string_view origin) {
  if (note.abi_major != DW_ABI_MAJOR)
    return refuse(
        Refusal::kWrongAbi, origin,
        {.expected = absl::StrCat("major ", DW_ABI_MAJOR),
         .actual = absl::StrCat(note.abi_major, ".", note.abi_minor)});
  if (note.sanitizer != DW_SANITIZER)
    return refuse(Refusal::kSanitizer, origin,
                  {.expected = std::string(sanitizer_name(DW_SANITIZER)),
                   .actual = std::string(sanitizer_name(note.sanitizer))});
  // Growth rules 3 and 5.
  const uint32_t unknown = dw_unknown_flags(note.flags, 0);
  if (unknown != 0 || note.reserved != 0)
    return refuse(
        Refusal::kBadNote, origin,
        {.about = absl::StrCat("unknown flags 0x", absl::Hex(unknown))});
  return absl::OkStatus();
}

absl::StatusOr<dw_note> read_note(const std::string& path) {
  // O_NONBLOCK, because opening a pipe would wait for a writer.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return refuse(Refusal::kUnreadable, path,
                  {.cause = base::errno_text(errno)});
  const absl::Cleanup close_fd = [fd] { close(fd); };
  struct stat info;
  if (fstat(fd, &info) != 0)
    return refuse(Refusal::kUnreadable, path,
                  {.cause = base::errno_text(errno)});
  if (!S_ISREG(info.st_mode)) return refuse(Refusal::kNotAFile, path);
  const auto read = [fd](uint64_t offset, size_t size) {
    std::string bytes(size, '\0');
    size_t filled = 0;
    while (filled < size) {
      const ssize_t n = pread(fd, bytes.data() + filled, size - filled,
                              static_cast<off_t>(offset + filled));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      filled += static_cast<size_t>(n);
    }
    bytes.resize(filled);
    return bytes;
  };
  absl::StatusOr<dw_note> note =
      find_note(read, static_cast<uint64_t>(info.st_size), path);
  if (!note.ok()) return note;
  if (absl::Status status = check_note(*note, path); !status.ok())
    return status;
  return note;
}

}  // namespace distwrap::plugin
