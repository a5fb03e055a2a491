#include "base/read_file.h"

#include "base/descriptor.h"

#include <algorithm>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

namespace distwrap::base {

std::optional<std::string> read_file(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  const Descriptor file(fd);
  std::string text;
  char piece[4096];
  for (;;) {
    const ssize_t bytes = read(fd, piece, sizeof piece);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return std::nullopt;
    if (bytes == 0) return text;
    text.append(piece, static_cast<size_t>(bytes));
  }
}

absl::string_view take_line(absl::string_view* text) {
  const size_t end = std::min(text->find('\n'), text->size());
  const absl::string_view line = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  return line;
}

}  // namespace distwrap::base
