// Replays of captured operations. NCCL says nothing about them, so with the
// hint `watch_replays` the device writes a word in memory of the host when a
// replay begins an operation, and when it ends it. The instance's thread marks
// a word that says "begun": if the mark is still there later, the same replay
// is still running, however many have been launched meanwhile.
//
// Threads: any. Ownership: of NCCL's part of a communicator.
#ifndef DISTWRAP_BACKENDS_NCCL_REPLAYS_H_
#define DISTWRAP_BACKENDS_NCCL_REPLAYS_H_

#include "library.h"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace nccl_backend {

class Replays {
 public:
  using Word = std::atomic<uint32_t>;

  // Whether the driver can write words in a capture.
  static bool possible(const Driver& driver) {
    return driver.cuStreamWriteValue32_v2 != nullptr &&
           driver.cuMemHostAlloc != nullptr && driver.cuMemFreeHost != nullptr;
  }

  // Puts the begin and the end of a captured operation on its stream. A replay
  // that lasts longer than `limit_ns` is stuck; 0: none is. CUDA's code.
  int begin(const Driver& driver, CUstream_st* stream, uint16_t kind,
            uint64_t seq, int64_t limit_ns, Word** word);
  static int end(const Driver& driver, CUstream_st* stream, Word* word);

  // Looks at all words. The text about a replay that is stuck; empty: none is.
  std::string look(int64_t now_ns);
  // Frees the words. Precondition: no graph is left. After an abort one may be,
  // and the words stay until the process ends.
  void free(const Driver& driver);

 private:
  struct Watched {
    Word* word;
    uint16_t kind;
    uint64_t seq;
    int64_t limit_ns, since_ns;
  };

  std::mutex mutex_;
  std::vector<Watched> watched_;
  std::vector<void*> pages_;
  size_t left_ = 0;  // words of the last page that nobody has
};

}  // namespace nccl_backend

#endif  // DISTWRAP_BACKENDS_NCCL_REPLAYS_H_
