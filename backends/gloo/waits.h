// Waits that end when the peer is lost.
//
// Gloo forgets a message in the middle of which the connection breaks: nobody
// is told, and who waits for it waits for ever. So every wait is known here by
// its peer, and the one who notices that a peer's connection is at its end lets
// go of those that nothing can complete any more.
//
// Threads: any.
#ifndef DISTWRAP_BACKENDS_GLOO_WAITS_H_
#define DISTWRAP_BACKENDS_GLOO_WAITS_H_

#include <gloo/transport/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <memory>
#include <mutex>
#include <vector>

namespace gloo_backend {

enum class Way { kSend, kReceive };

class Waits {
 public:
  explicit Waits(int size) : lost_(static_cast<size_t>(size), false) {}

  // A wait while it lasts.
  class Wait {
   public:
    Wait(Waits& waits, int peer, gloo::transport::UnboundBuffer* buffer,
         Way way);
    ~Wait();
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

    bool begins_lost() const { return begins_lost_; }

   private:
    friend class Waits;

    Waits& waits_;
    const int peer_;
    gloo::transport::UnboundBuffer* const buffer_;
    const Way way_;
    bool begins_lost_ = false;
  };

  // All that this peer has ever sent was taken, and there will be no more.
  void lose(int peer);
  // Nobody waits any more: the communicator is over.
  void lose_all();
  bool is_lost(int peer);
  bool is_any_lost();

 private:
  std::mutex mutex_;
  std::vector<bool> lost_;
  std::vector<Wait*> waiting_;
};

// The transport context of Gloo's collectives: a real one, with buffers whose
// waits are known.
//
// Real buffers are used again. Whoever destroys one has to wait until Gloo's
// thread has let go of it, by giving up the processor to whoever may want it;
// and that thread has just woken him to say that all is done.
class WatchedContext : public gloo::transport::Context {
 public:
  WatchedContext(std::shared_ptr<gloo::transport::Context> real);

  std::unique_ptr<gloo::transport::Pair>& getPair(int peer) override;
  std::unique_ptr<gloo::transport::Pair>& createPair(int peer) override;
  std::unique_ptr<gloo::transport::UnboundBuffer> createUnboundBuffer(
      void* memory, size_t size) override;

  Waits& waits() { return waits_; }

  // A buffer that spans all memory: its offsets are addresses.
  std::unique_ptr<gloo::transport::UnboundBuffer> take_real();
  // Back from an owner for whom nothing is left to complete in it.
  void give_back(std::unique_ptr<gloo::transport::UnboundBuffer> buffer);

 private:
  const std::shared_ptr<gloo::transport::Context> real_;
  Waits waits_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<gloo::transport::UnboundBuffer>> unused_;
};

}  // namespace gloo_backend

#endif  // DISTWRAP_BACKENDS_GLOO_WAITS_H_
