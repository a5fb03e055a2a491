// Gloo's device: one socket address and the thread that serves its sockets.
//
// Threads: any, except destruction, which comes last.
// Ownership: the instance holds it; the connections have to end before it.
#ifndef DISTWRAP_BACKENDS_GLOO_DEVICE_H_
#define DISTWRAP_BACKENDS_GLOO_DEVICE_H_

#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <tuple>

namespace gloo_backend {

// Where a device listens: at an interface's first address, or at the address.
struct Place {
  std::string interface, address;  // one of the two
  bool operator<(const Place& other) const {
    return std::tie(interface, address) <
           std::tie(other.interface, other.address);
  }
};

class Device {
 public:
  // Throws Gloo's exception when there is no such interface or address.
  explicit Device(const Place& place);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const std::shared_ptr<gloo::transport::Device>& gloo() const { return gloo_; }
  // Gloo's own object, with which sockets are registered.
  gloo::transport::tcp::Device& tcp() {
    return *static_cast<gloo::transport::tcp::Device*>(gloo_.get());
  }

  // While an object of this class lives, Gloo's thread turns without pause.
  // Gloo makes a thread that gives up a socket wait for a turn, which takes up
  // to 10 ms when there is nothing to do: too long for every pair of a group.
  class Hurry {
   public:
    explicit Hurry(Device& device);
    ~Hurry();
    Hurry(const Hurry&) = delete;
    Hurry& operator=(const Hurry&) = delete;

   private:
    Device& device_;
  };

  // Calls a function in Gloo's thread from time to time.
  class Alarm {
   public:
    Alarm(Device& device, std::function<void()> ring);
    ~Alarm();
    Alarm(const Alarm&) = delete;
    Alarm& operator=(const Alarm&) = delete;

    void every(std::chrono::microseconds period);
    // Calls it once, in the thread's next turn.
    void soon();
    void stop();

   private:
    class Handler;

    Device& device_;
    std::unique_ptr<Handler> handler_;
  };

 private:
  class Ticker;

  // Declared last: Gloo's thread calls into the ticker, so the ticker outlives
  // the thread.
  std::unique_ptr<Ticker> ticker_;
  std::shared_ptr<gloo::transport::Device> gloo_;
};

}  // namespace gloo_backend

#endif  // DISTWRAP_BACKENDS_GLOO_DEVICE_H_
