// The notes of a library of operators, which are read before it is mapped.
#ifndef DISTWRAP_SRC_DISPATCH_LIBRARY_NOTE_H_
#define DISTWRAP_SRC_DISPATCH_LIBRARY_NOTE_H_

#include <absl/status/status.h>

#include <cstdint>
#include <string>

namespace distwrap::dispatch {

// The note of DW_OPERATORS (distwrap/registration.h).
struct BlockNote {
  uint32_t version, sanitizer, cxx_abi, reserved;
};

// Whether this core may run blocks with the note; kPluginRefused otherwise.
absl::Status judge_note(const BlockNote& note, const std::string& path);

// Judges all notes of a file, of which nothing is mapped. Every number of the
// file is checked against its size. Errors: kPluginNotFound for no file,
// kPluginRefused for one that is no library of operators for this core.
absl::Status judge_file(const std::string& path);

}  // namespace distwrap::dispatch

#endif  // DISTWRAP_SRC_DISPATCH_LIBRARY_NOTE_H_
