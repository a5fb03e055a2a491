// A process's line to the store of a job on several hosts. It hears every entry
// of a log in order, and the store adds this process's last will to the log
// when the process ends, stops running or cannot be reached.
//
// The line's thread asks for the next entry all the time, with a time limit
// much shorter than `silence`: each request tells the store that this process
// runs, and each answer tells the process that the store does. So a cut in one
// direction ends the line on both sides.
//
// Threads: any. Ownership: the listener outlives the line.
//
//   auto line = NewsLine::open({place, "news", "lost 3", absl::Seconds(5)},
//                              listener, deadline);
#ifndef DISTWRAP_SRC_STORE_NEWS_LINE_H_
#define DISTWRAP_SRC_STORE_NEWS_LINE_H_

#include "base/mutex.h"
#include "distwrap/deadline.h"
#include "store/byte_stream.h"
#include "store/store_place.h"
#include "store/wire.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/time/time.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

namespace distwrap::store {

class NewsLine {
 public:
  // Called on the line's thread. Must not end the line.
  class Listener {
   public:
    virtual void on_news(absl::string_view text) = 0;
    // Nothing more is heard: the store is gone, or has given this process up.
    // `is_silent`: it does not answer, so other calls on it would wait.
    virtual void on_line_lost(absl::string_view cause, bool is_silent) = 0;

   protected:
    ~Listener() = default;
  };
  struct Plan {
    StorePlace place;
    std::string log, will;
    absl::Duration silence;
  };

  // The will stands when this returns. Errors: as of StorePlace::dial and
  // base::start_thread.
  static absl::StatusOr<std::unique_ptr<NewsLine>> open(Plan plan,
                                                        Listener& listener,
                                                        Deadline deadline);
  // Ends the line; the listener is not called again. The store then adds the
  // will, so who leaves in order says so in the log before.
  ~NewsLine();
  NewsLine(const NewsLine&) = delete;
  NewsLine& operator=(const NewsLine&) = delete;

  // How long the line may hear nothing at the most while the store lives, and
  // for how long it has heard nothing.
  static absl::Duration longest_pause(absl::Duration silence);
  absl::Duration pause() const;

 private:
  NewsLine(Plan plan, Listener& listener, std::unique_ptr<ByteStream> stream)
      : plan_(std::move(plan)),
        listener_(listener),
        stream_(std::move(stream)) {}
  absl::StatusOr<Reply> ask(const Request& request, Deadline deadline);
  absl::Status check_not_behind(int64_t next);
  void run();

  const Plan plan_;
  Listener& listener_;
  const std::unique_ptr<ByteStream> stream_;
  std::atomic<bool> ends_{false};
  std::atomic<int64_t> heard_ns_{Deadline::now_ns()};
  std::thread thread_;
};

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_NEWS_LINE_H_
