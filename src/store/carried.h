// How one connection carries many streams: an agent's, which brings those of
// its host's processes to the store.
//
//   frame: u8 what, u32 stream, u32 size, and `size` bytes; little-endian
//
// kOpen begins a stream under a number of its own, kEnd ends it from either
// side; both are empty. What comes for a stream that has ended is for nobody.
//
// kCopies brings the same bytes to several streams, so that what a store
// answers to all processes of a host crosses the network once: `stream` is
// their number, and the streams stand as u32 between the head and the bytes,
// each once and in rising order.
//
// Threads: one. Ownership: values.
//
//   channel.send(carried(Carried::kBytes, 7, bytes));
//   if (!reader.pass(arrived, take)) close();
#ifndef DISTWRAP_SRC_STORE_CARRIED_H_
#define DISTWRAP_SRC_STORE_CARRIED_H_

#include <absl/functional/function_ref.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace distwrap::store {

enum class Carried : uint8_t { kOpen = 1, kBytes, kEnd, kCopies };

// The frame. `bytes`: for kBytes only.
std::string carried(Carried what, uint32_t stream,
                    absl::string_view bytes = {});
// The frame of kCopies for 2 to kMostCopies streams, in rising order.
constexpr size_t kMostCopies = 4096;
std::string carried_to(absl::Span<const uint32_t> streams,
                       absl::string_view bytes);

class CarriedReader {
 public:
  // Gives what arrives to `take`, the bytes of a frame in the pieces in which
  // they come, and those of kCopies as kBytes of each stream. False: they break
  // a rule.
  using Take = absl::FunctionRef<void(Carried what, uint32_t stream,
                                      absl::string_view bytes)>;
  bool pass(absl::string_view arrived, Take take);

 private:
  static constexpr size_t kHeadBytes = sizeof(uint8_t) + 2 * sizeof(uint32_t);
  bool take_head(Take take);

  // The next frame's head, as far as it has come, and its length.
  std::string head_;
  size_t head_size_ = kHeadBytes;
  std::vector<uint32_t> streams_;  // streams of the present frame
  size_t left_ = 0;  // bytes of the present frame that are still to come
};

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_CARRIED_H_
