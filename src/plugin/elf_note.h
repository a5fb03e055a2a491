// Reads a plugin's note from its file before any part of the file is mapped.
//
// Every number of the file is checked against the file's size, so arbitrary
// bytes give either a note or a named refusal.
// Threads: functions without state.
#ifndef DISTWRAP_SRC_PLUGIN_ELF_NOTE_H_
#define DISTWRAP_SRC_PLUGIN_ELF_NOTE_H_

#include "distwrap/abi/note.h"

#include <absl/functional/function_ref.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <string>

namespace distwrap::plugin {

// Reads bytes of the file from an offset; fewer than requested at its end.
using ReadAt = absl::FunctionRef<std::string(uint64_t offset, size_t size)>;

// The note of a shared library for this machine. `origin` is for messages.
absl::StatusOr<dw_note> find_note(ReadAt read, uint64_t file_size,
                                  absl::string_view origin);

// Whether this host may load a file with this note.
absl::Status check_note(const dw_note& note, absl::string_view origin);

// Reads and checks the note of a file.
absl::StatusOr<dw_note> read_note(const std::string& path);

}  // namespace distwrap::plugin

#endif  // DISTWRAP_SRC_PLUGIN_ELF_NOTE_H_
