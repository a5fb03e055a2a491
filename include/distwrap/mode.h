// Modes: handlers of a thread's calls. A mode sees every operator that the
// thread calls while its guard lives, and may go on, answer itself, or fail.
//
// Modes belong to a key: kUser1 to kUser4 have a stack of modes each, of which
// the newest runs first; kPreDispatch has two slots, of which the functional
// one runs first. While a mode runs it is off, and so are the newer ones above
// it: it never sees its own calls. It is on again after the end, an error or an
// exception.
//
// Threads: a mode serves the thread of its guard, and threads that restore a
// captured TlsState. Ownership: the guard and captured states own the mode.
//
//   struct Count : Mode {
//     absl::Status run(const OpHandle& op, KeySet set, Stack& stack) override {
//       ++calls;
//       return op.redispatch_boxed(set, stack);  // the next mode, or below
//     }
//     int calls = 0;
//   };
//   ModeGuard guard(kUser1, std::make_unique<Count>());
#ifndef DISTWRAP_MODE_H_
#define DISTWRAP_MODE_H_

#include "distwrap/export.h"
#include "distwrap/operator.h"

#include <absl/status/status.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace distwrap::dispatch {

class DISTWRAP_EXPORT Mode {
 public:
  Mode() = default;
  virtual ~Mode();
  Mode(const Mode&) = delete;
  Mode& operator=(const Mode&) = delete;
  // One call of `op`, for this set. redispatch_boxed() with the same set goes
  // on; the results replace the arguments.
  virtual absl::Status run(const OpHandle& op, KeySet set, Stack& stack) = 0;
};

enum class PreDispatch : uint8_t { kRecorder, kFunctional };

// Makes a mode see the calls of this thread as long as the guard lives. Guards
// end in the reverse order of their begin.
class DISTWRAP_EXPORT ModeGuard {
 public:
  template <class M>
  ModeGuard(Key key, std::unique_ptr<M> mode)
      : ModeGuard(key, -1, std::move(mode),
                  distwrap::internal::objects_here<M>()) {}
  template <class M>
  ModeGuard(PreDispatch slot, std::unique_ptr<M> mode)
      : ModeGuard(kPreDispatch, static_cast<int>(slot), std::move(mode),
                  distwrap::internal::objects_here<M>()) {}
  ~ModeGuard();
  ModeGuard(const ModeGuard&) = delete;
  ModeGuard& operator=(const ModeGuard&) = delete;
  // kDuplicate for a key with a fallback that is not a mode's, and for a slot
  // that is filled; kArgument for other keys. The mode sees nothing then.
  const absl::Status& status() const { return status_; }

 private:
  ModeGuard(Key key, int slot, std::unique_ptr<Mode> mode,
            std::atomic<int64_t>* objects);

  absl::Status status_;
  std::shared_ptr<const ModeStack> before_;
  uint64_t added_ = 0;
};

}  // namespace distwrap::dispatch

#endif  // DISTWRAP_MODE_H_
