// The way of the ranks' output to ours.
//
// Threads: that of the loop.
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

  // The lines that are whole with `bytes`.
  std::string add(absl::string_view bytes);
  // What is left at the end, as a line.
  std::string finish();

 private:
  std::string prefix_;
  std::string partial_;
};

// Writes to a descriptor of ours without ever blocking the loop for long.
class Sink {
 public:
  Sink(uv_loop_t* loop, int fd);

  void write(absl::string_view bytes);
  // Gives up what is not written.
  void close();

  bool is_full() const { return pending_.size() > kFull; }
  bool is_idle() const { return pending_.empty(); }
  // The reader has gone.
  bool is_broken() const { return broken_; }
  // Called when all is written, or when it broke.
  std::function<void()> on_idle;

 private:
  static constexpr size_t kFull = 1 << 20;

  bool is_ready() const;
  void flush();

  const int fd_;
  uv_poll_t poll_ = {};
  bool has_poll_ = false;  // a file is written to at once
  bool broken_ = false;
  bool closed_ = false;
  std::string pending_;
};

// Reads a pipe that a rank writes to.
class Source {
 public:
  Source(std::string prefix, Sink* sink)
      : lines_(std::move(prefix)), sink_(sink) {}

  // Takes the descriptor.
  void open(uv_loop_t* loop, int fd);
  // Reads on when the sink has room, ends when it broke.
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
