#include "hosts/cable.h"

#include "distwrap/deadline.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>

namespace distwrap::hosts_test {
namespace {

constexpr size_t kAddress = 6;  // bytes of an Ethernet address
constexpr size_t kEthernet = 14;
// Frames that wait beyond this are lost, as in a router.
constexpr size_t kMostLate = 1000;

uint8_t byte_at(const std::string& frame, size_t at) {
  return static_cast<uint8_t>(frame[at]);
}
uint16_t word_at(const std::string& frame, size_t at) {
  return static_cast<uint16_t>(byte_at(frame, at) << 8 |
                               byte_at(frame, at + 1));
}

// The TCP segment in a frame: where it begins, and where its data are. Zeros
// for other frames.
struct Segment {
  size_t begin = 0, data = 0, size = 0;
};
Segment segment_in(const std::string& frame) {
  constexpr uint16_t kIpv4 = 0x0800;
  constexpr uint8_t kTcp = 6;
  if (frame.size() < kEthernet + 20 || word_at(frame, 12) != kIpv4 ||
      byte_at(frame, kEthernet + 9) != kTcp)
    return {};
  Segment found;
  found.begin = kEthernet + (byte_at(frame, kEthernet) & 15u) * 4u;
  if (frame.size() < found.begin + 20) return {};
  found.data = found.begin + (byte_at(frame, found.begin + 12) >> 4) * 4u;
  // Short frames are padded.
  const size_t end = kEthernet + word_at(frame, kEthernet + 2);
  if (end > frame.size() || end < found.data) return {};
  found.size = end - found.data;
  return found;
}

bool has_port(const std::string& frame, const Segment& segment, int port) {
  return segment.begin != 0 && (word_at(frame, segment.begin) == port ||
                                word_at(frame, segment.begin + 2) == port);
}

// Changes a byte of the segment's data, and its checksum with it (RFC 1624).
void flip(std::string* frame, const Segment& segment, size_t at) {
  const size_t place = segment.data + at;
  const size_t word = place - (place - segment.begin) % 2;
  const auto padded = [&] {
    return word + 1 < segment.data + segment.size
               ? word_at(*frame, word)
               : static_cast<uint16_t>(byte_at(*frame, word) << 8);
  };
  const uint16_t before = padded();
  (*frame)[place] = static_cast<char>((*frame)[place] ^ 0x20);
  const uint16_t after = padded();
  const size_t checksum = segment.begin + 16;
  uint32_t sum = static_cast<uint16_t>(~word_at(*frame, checksum));
  sum += static_cast<uint16_t>(~before);
  sum += after;
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  const auto made = static_cast<uint16_t>(~sum);
  (*frame)[checksum] = static_cast<char>(made >> 8);
  (*frame)[checksum + 1] = static_cast<char>(made & 0xff);
}

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::abort();
}

}  // namespace

Cable::Cable() : wake_(eventfd(0, EFD_CLOEXEC)) {}

Cable::~Cable() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    over_ = true;
  }
  const uint64_t one = 1;
  if (write(wake_, &one, sizeof one) < 0) fail("eventfd");
  if (thread_.joinable()) thread_.join();
  for (const End& end : ends_) close(end.device);
  close(wake_);
}

std::string Cable::why_not() {
  const int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
  if (fd < 0) return "no TAP devices: /dev/net/tun cannot be opened";
  close(fd);
  return "";
}

void Cable::plug_in(const std::string& device) {
  const int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
  ifreq request = {};
  std::strncpy(request.ifr_name, device.c_str(), IFNAMSIZ - 1);
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  if (fd < 0 || ioctl(fd, TUNSETIFF, &request) != 0) fail("/dev/net/tun");
  ends_.push_back({.device = fd});
}

void Cable::start() {
  thread_ = std::thread([this] { run(); });
}

void Cable::set_faults(const Faults& faults) {
  const std::lock_guard<std::mutex> lock(mutex_);
  faults_ = faults;
}

void Cable::cut(int host, Way way, int port) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ends_[static_cast<size_t>(host)].cuts.push_back({way, port});
}

void Cable::cut_after(int host, int64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ends_[static_cast<size_t>(host)].until_cut = bytes;
}

void Cable::flip_after(int host, int64_t bytes, int port) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ends_[static_cast<size_t>(host)].until_flip = bytes;
  ends_[static_cast<size_t>(host)].flip_port = port;
}

void Cable::mend() {
  const std::lock_guard<std::mutex> lock(mutex_);
  faults_ = {};
  for (End& end : ends_) end = {.device = end.device};
}

bool Cable::is_cut(const End& end, Way way, const std::string& frame) const {
  return std::any_of(end.cuts.begin(), end.cuts.end(), [&](const Cut& cut) {
    if (cut.way != Way::kBoth && cut.way != way) return false;
    if (cut.port == 0) return true;
    return has_port(frame, segment_in(frame), cut.port);
  });
}

void Cable::run() {
  std::vector<pollfd> polled;
  for (const End& end : ends_) polled.push_back({end.device, POLLIN, 0});
  polled.push_back({wake_, POLLIN, 0});
  for (;;) {
    int timeout_ms = -1;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (over_) return;
      const int64_t now = Deadline::now_ns();
      while (!late_.empty() && late_.front().due_ns <= now) {
        deliver(late_.front());
        late_.pop_front();
      }
      if (!late_.empty())
        timeout_ms =
            static_cast<int>((late_.front().due_ns - now) / 1'000'000) + 1;
    }
    poll(polled.data(), polled.size(), timeout_ms);
    for (size_t host = 0; host < ends_.size(); ++host) {
      if ((polled[host].revents & POLLIN) == 0) continue;
      // A few each, so that no host waits for long.
      for (int i = 0; i < 16; ++i) {
        char frame[2048];
        const ssize_t size = read(polled[host].fd, frame, sizeof frame);
        if (size < static_cast<ssize_t>(kEthernet)) break;
        take(static_cast<int>(host),
             std::string(frame, static_cast<size_t>(size)));
      }
    }
  }
}

void Cable::take(int from, std::string frame) {
  const std::lock_guard<std::mutex> lock(mutex_);
  host_of_[frame.substr(kAddress, kAddress)] = from;
  const auto known = host_of_.find(frame.substr(0, kAddress));
  if (known != host_of_.end()) {
    if (known->second != from) pass(from, known->second, std::move(frame));
    return;
  }
  for (int to = 0; to < static_cast<int>(ends_.size()); ++to)
    if (to != from) pass(from, to, frame);
}

void Cable::pass(int from, int to, std::string frame) {
  const Segment segment = segment_in(frame);
  for (const int host : {from, to}) {
    End& end = ends_[static_cast<size_t>(host)];
    const auto size = static_cast<int64_t>(segment.size);
    if (end.until_flip >= 0 && has_port(frame, segment, end.flip_port)) {
      if (end.until_flip < size)
        flip(&frame, segment, static_cast<size_t>(end.until_flip));
      end.until_flip = std::max<int64_t>(end.until_flip - size, -1);
    }
    if (end.until_cut >= 0) {
      if (end.until_cut < size) end.cuts.push_back({Way::kBoth, 0});
      end.until_cut = std::max<int64_t>(end.until_cut - size, -1);
    }
  }
  if (is_cut(ends_[static_cast<size_t>(from)], Way::kFrom, frame) ||
      is_cut(ends_[static_cast<size_t>(to)], Way::kTo, frame))
    return;
  if (faults_.loss > 0 &&
      std::uniform_real_distribution<>()(random_) < faults_.loss)
    return;
  Late late{Deadline::now_ns(), to, std::move(frame)};
  if (faults_.delay == absl::ZeroDuration() && faults_.bytes_a_second == 0 &&
      late_.empty())
    return deliver(late);
  if (late_.size() >= kMostLate) return;
  if (faults_.bytes_a_second > 0) {
    busy_until_ns_ = std::max(busy_until_ns_, late.due_ns) +
                     static_cast<int64_t>(late.frame.size()) * 1'000'000'000 /
                         faults_.bytes_a_second;
    late.due_ns = busy_until_ns_;
  }
  late.due_ns += absl::ToInt64Nanoseconds(faults_.delay);
  late_.push_back(std::move(late));
}

// A device that is not up loses the frame.
void Cable::deliver(const Late& late) const {
  (void)!write(ends_[static_cast<size_t>(late.to)].device, late.frame.data(),
               late.frame.size());
}

}  // namespace distwrap::hosts_test
