#include "device.h"

#include "sdk/thread.h"

#include <cerrno>
#include <mutex>
#include <net/if.h>
#include <stdexcept>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace gloo_backend {

namespace tcp = gloo::transport::tcp;

// An event that Gloo's thread finds in every turn until it is removed.
class Device::Ticker : public tcp::Handler {
 public:
  Ticker() : event_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (event_ < 0) throw std::system_error(errno, std::generic_category());
  }
  ~Ticker() override { ::close(event_); }

  int event() const { return event_; }

  void begin() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (wanted_++ == 0) eventfd_write(event_, 1);
  }
  void end() {
    std::lock_guard<std::mutex> lock(mutex_);
    --wanted_;
  }

  void handleEvents(int /*events*/) override {
    std::lock_guard<std::mutex> lock(mutex_);
    eventfd_t taken;
    if (wanted_ == 0) eventfd_read(event_, &taken);
  }

 private:
  const int event_;
  std::mutex mutex_;
  int wanted_ = 0;
};

Device::Device(const Place& place) : ticker_(std::make_unique<Ticker>()) {
  // Gloo would search for the interface without success and leak the list.
  if (place.address.empty() && if_nametoindex(place.interface.c_str()) == 0)
    throw std::runtime_error("there is no interface '" + place.interface + "'");
  tcp::attr attr;
  attr.iface = place.interface;
  attr.hostname = place.address;
  // Gloo's thread inherits the mask: the program's signals are not for it, and
  // its writes to a closed socket must not end the process.
  const dw_sdk::SignalsBlocked blocked;
  gloo_ = tcp::CreateDevice(attr);
  tcp().registerDescriptor(ticker_->event(), EPOLLIN, ticker_.get());
}

Device::~Device() {
  ticker_->begin();
  gloo_.reset();
}

Device::Hurry::Hurry(Device& device) : device_(device) {
  device_.ticker_->begin();
}

Device::Hurry::~Hurry() { device_.ticker_->end(); }

class Device::Alarm::Handler : public tcp::Handler {
 public:
  explicit Handler(std::function<void()> ring)
      : timer_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)),
        ring_(std::move(ring)) {
    if (timer_ < 0) throw std::system_error(errno, std::generic_category());
  }
  ~Handler() override { ::close(timer_); }

  int timer() const { return timer_; }
  // Gloo's thread has left; the lock shows this to tools that check
  // synchronisation by locks.
  void left() { std::lock_guard<std::mutex> lock(mutex_); }

  void set(std::chrono::nanoseconds first, std::chrono::nanoseconds period) {
    const itimerspec often = {{0, period.count()}, {0, first.count()}};
    timerfd_settime(timer_, 0, &often, nullptr);
  }

  void handleEvents(int /*events*/) override {
    std::lock_guard<std::mutex> lock(mutex_);
    uint64_t times;
    if (read(timer_, &times, sizeof times) == sizeof times) ring_();
  }

 private:
  const int timer_;
  const std::function<void()> ring_;
  std::mutex mutex_;
};

Device::Alarm::Alarm(Device& device, std::function<void()> ring)
    : device_(device), handler_(std::make_unique<Handler>(std::move(ring))) {
  device_.tcp().registerDescriptor(handler_->timer(), EPOLLIN, handler_.get());
}

Device::Alarm::~Alarm() {
  const Hurry hurry(device_);
  device_.tcp().unregisterDescriptor(handler_->timer(), handler_.get());
  handler_->left();
}

void Device::Alarm::every(std::chrono::microseconds period) {
  handler_->set(period, period);
}

void Device::Alarm::soon() {
  constexpr std::chrono::nanoseconds kAtOnce(1), kNever(0);
  handler_->set(kAtOnce, kNever);
}

void Device::Alarm::stop() { every(std::chrono::microseconds(0)); }

}  // namespace gloo_backend
