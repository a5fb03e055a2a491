// How one connection carries many streams: an agent's, which brings those of
// its host's processes to the store.
//
//   frame: u8 what, u32 stream, u32 size, and `size` bytes; little-endian
//
// kOpen begins a stream under a number of its own, kEnd ends it from either
// side; both are empty. What comes for a stream that has ended is for nobody.
//
// Threads: one. Ownership: values.
//
//   channel.send(carried(Carried::kBytes, 7, bytes));
//   if (!reader.pass(arrived, take)) close();
#ifndef DISTWRAP_SRC_STORE_CARRIED_H_
#define DISTWRAP_SRC_STORE_CARRIED_H_

#include <absl/functional/function_ref.h>
#include <absl/strings/string_view.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace distwrap::store {

enum class Carried : uint8_t { kOpen = 1, kBytes, kEnd };

// The frame. `bytes`: for kBytes only.
std::string carried(Carried what, uint32_t stream,
                    absl::string_view bytes = {});

class CarriedReader {
 public:
  // Gives what arrives to `take`, the bytes of a frame in the pieces in which
  // they come. False: they break a rule.
  using Take = absl::FunctionRef<void(Carried what, uint32_t stream,
                                      absl::string_view bytes)>;
  bool pass(absl::string_view arrived, Take take);

 private:
  std::string head_;  // the next frame's head, as far as it has come
  uint32_t stream_ = 0;
  size_t left_ = 0;  // bytes of the present frame that are still to come
};

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_CARRIED_H_
