// The path of the ranks' output to this process's output.
//
// Threads: the loop's thread.
// Ownership: objects live until the loop has closed their handles.
#ifndef DISTWRAP_TOOLS_CLI_OUTPUT_H_
#define DISTWRAP_TOOLS_CLI_OUTPUT_H_

#include <absl/strings/string_view.h>
#include <uv.h>

#include <functional>
#include <string>

namespace distwrap::cli {

// Puts a prefix before every line.
class LinePrefixer {
 public:
  // Longer lines are broken.
  static constexpr size_t kLongestLine = 64 << 10;

  explicit LinePrefixer(std::string prefix) : prefix_(std::move(prefix)) {}

  // Adds bytes; returns the lines that are complete now.
  std::string add(absl::string_view bytes);
  // Returns the incomplete rest as a line.
  std::string finish();

 private:
  std::string prefix_;
  std::string partial_;
};

// Writes to a descriptor of this process without blocking the loop for long.
class Sink {
 public:
  Sink(uv_loop_t* loop, int fd);

  void write(absl::string_view bytes);
  // Drops everything that is not written yet.
  void close();

  bool is_full() const { return pending_.size() > kFull; }
  bool is_idle() const { return pending_.empty(); }
  // The reader has closed its end.
  bool is_broken() const { return broken_; }
  // Called when everything is written or the sink broke.
  std::function<void()> on_idle;

 private:
  static constexpr size_t kFull = 1 << 20;

  bool is_ready() const;
  void flush();

  const int fd_;
  uv_poll_t poll_ = {};
  bool has_poll_ = false;  // false for a file, which is written at once
  bool broken_ = false;
  bool closed_ = false;
  std::string pending_;
};

// Reads a pipe to which a rank writes.
class Source {
 public:
  Source(std::string prefix, Sink* sink)
      : lines_(std::move(prefix)), sink_(sink) {}

  // Takes ownership of the descriptor.
  void open(uv_loop_t* loop, int fd);
  // Continues to read when the sink has room; ends when the sink broke.
  void resume();
  void close();
  bool is_open() const { return open_; }

 private:
  void on_bytes(absl::string_view bytes);

  uv_pipe_t pipe_ = {};
  bool open_ = false;
  bool paused_ = false;
  LinePrefixer lines_;
  Sink* const sink_;
};

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_OUTPUT_H_
