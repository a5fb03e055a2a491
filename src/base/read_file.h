// The content of a small file.
//
// Streams of the standard library take an allocation that fails for the end of
// the file, so a process without memory would read a part and believe it.
// Threads: any.
#ifndef DISTWRAP_SRC_BASE_READ_FILE_H_
#define DISTWRAP_SRC_BASE_READ_FILE_H_

#include <absl/strings/string_view.h>

#include <optional>
#include <string>

namespace distwrap::base {

// The whole file. Nothing when it cannot be opened or read: errno says why.
// Throws std::bad_alloc.
std::optional<std::string> read_file(const std::string& path);

// Takes the first line, without its end, off `text`.
absl::string_view take_line(absl::string_view* text);

}  // namespace distwrap::base

#endif  // DISTWRAP_SRC_BASE_READ_FILE_H_
