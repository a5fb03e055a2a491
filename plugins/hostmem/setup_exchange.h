// A communicator or window that the ranks of a group build in rounds, as the
// slots setup_begin, window_create, setup_step and setup_cancel of the C ABI
// ask for it. In each round a rank sends a setup message to all ranks, with a
// header by which they recognise what it belongs to.
//
// Threads: one at a time. Ownership: the host, as dw_setup, until the last
// step, a failed step or setup_cancel; `take` gives up what was built.
// Errors: DW_REASON_REFUSED, or DW_REASON_STALE_EPOCH for a message of another
// epoch, with the rank whose message it is; those of the backend's steps.
#ifndef DISTWRAP_PLUGINS_HOSTMEM_SETUP_EXCHANGE_H_
#define DISTWRAP_PLUGINS_HOSTMEM_SETUP_EXCHANGE_H_

#include "distwrap/abi/plugin.h"
#include "sdk/guard.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dw_hostmem {

class SetupExchange {
 public:
  // `backend`: its name, with which errors begin. `magic` and `version`: the
  // object that is built, and the form of its setup messages.
  struct Kind {
    const char* backend;
    uint32_t magic, version;
  };

  SetupExchange(const Kind& kind, const dw_setup_info& info);
  virtual ~SetupExchange() = default;
  SetupExchange(const SetupExchange&) = delete;
  SetupExchange& operator=(const SetupExchange&) = delete;

  // This rank's setup message for the next round.
  dw_blob word() const { return {blob_.data(), blob_.size(), nullptr, 0}; }
  // DW_OK when there is another round, DW_DONE after the last.
  int32_t step(const dw_blob* in, uint64_t n, dw_error* error);
  // Returns the result and gives up its ownership.
  virtual dw_setup_result take() = 0;

 protected:
  // The setup messages of all ranks in a round without their headers, by rank.
  using Words = std::vector<std::string_view>;

  // Like `step`, with the number of the round that has ended, from 0.
  virtual int32_t hear(uint32_t round, const Words& words, dw_error* error) = 0;
  // Sets this rank's message for the next round, and for those after it until
  // another is set.
  void say(std::string_view what);
  // Sets a message that is one object.
  template <class Word>
  void say_object(const Word& word) {
    say({reinterpret_cast<const char*>(&word), sizeof word});
  }
  uint64_t uid() const { return header_.uid; }
  uint64_t epoch() const { return header_.epoch; }

  // Refuses a rank's message.
  int32_t refuse(int peer, const std::string& why, dw_error* error) const;
  // Reads messages that are one object each.
  template <class Word>
  int32_t read(const Words& words, std::vector<Word>* read,
               dw_error* error) const {
    read->resize(words.size());
    for (size_t rank = 0; rank < words.size(); ++rank) {
      if (words[rank].size() != sizeof(Word))
        return refuse_size(static_cast<int>(rank), error);
      std::memcpy(&(*read)[rank], words[rank].data(), sizeof(Word));
    }
    return DW_OK;
  }
  int32_t refuse_size(int peer, dw_error* error) const;

 private:
  struct MessageHeader {
    uint32_t magic, version;
    int32_t rank, size;
    uint64_t uid, epoch;
    uint32_t round, bytes;  // number of the round, bytes behind the header
  };

  int32_t check(int peer, const dw_blob& blob, dw_error* error) const;

  const char* const backend_;
  MessageHeader header_ = {};
  std::string blob_;
};

// The slot setup_begin or window_create: `make` makes the SetupExchange, which
// has said its first setup message, or returns an error. `what` names the
// object in the error for an exception.
template <class Make>
int32_t begin_setup_exchange(const char* what, const Make& make,
                             dw_setup** setup, dw_blob* out, dw_error* error) {
  return dw_sdk::guarded(what, error, [&]() -> int32_t {
    std::unique_ptr<SetupExchange> made;
    if (int32_t code = make(&made)) return code;
    *out = made->word();
    *setup = reinterpret_cast<dw_setup*>(made.release());
    return DW_OK;
  });
}
// The slot setup_step.
int32_t step_setup_exchange(const char* what, dw_setup* setup,
                            const dw_blob* in, uint64_t n, dw_blob* out,
                            dw_setup_result* result, dw_error* error);
// The slot setup_cancel.
void cancel_setup_exchange(dw_setup* setup);

}  // namespace dw_hostmem

#endif  // DISTWRAP_PLUGINS_HOSTMEM_SETUP_EXCHANGE_H_
