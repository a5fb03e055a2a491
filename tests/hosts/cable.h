// A cable of our own between hosts: each host's end is a TAP device, and a
// thread passes the Ethernet frames on, loses, delays or damages them. Kernels
// without netem can do nothing of that.
//
// Threads: any. Ownership: the devices go with the cable.
//
//   Cable cable;
//   cable.plug_in("eth0");  // in the network of host 0, then of host 1, ...
//   cable.start();
//   cable.set_faults({.loss = 0.05});
//   cable.cut(1, Cable::Way::kFrom);
#ifndef DISTWRAP_TESTS_HOSTS_CABLE_H_
#define DISTWRAP_TESTS_HOSTS_CABLE_H_

#include <absl/time/time.h>

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace distwrap::hosts_test {

class Cable {
 public:
  // Why this machine has no cables; empty: it has.
  static std::string why_not();
  struct Faults {
    double loss = 0;  // the part of the frames that is lost
    absl::Duration delay = absl::ZeroDuration();
    int64_t bytes_a_second = 0;  // 0: as many as come
  };
  enum class Way { kBoth, kFrom, kTo };

  Cable();
  ~Cable();
  Cable(const Cable&) = delete;
  Cable& operator=(const Cable&) = delete;

  // Makes the next host's device, in the network of the calling thread.
  void plug_in(const std::string& device);
  void start();

  void set_faults(const Faults& faults);
  // No frame leaves the host, or reaches it. `port`: only those of TCP with
  // this port at either end; 0: all.
  void cut(int host, Way way, int port = 0);
  // Cuts a host off, both ways, after so many more bytes that TCP carries from
  // it or to it.
  void cut_after(int host, int64_t bytes);
  // Changes a byte that TCP carries from a host or to it with this port at
  // either end, `bytes` bytes from now on, so that TCP itself does not notice.
  void flip_after(int host, int64_t bytes, int port);
  // Puts everything back.
  void mend();

 private:
  struct Cut {
    Way way;
    int port;
  };
  struct End {
    int device = -1;
    std::vector<Cut> cuts = {};
    int64_t until_cut = -1, until_flip = -1;  // bytes; -1: never
    int flip_port = 0;
  };
  struct Late {
    int64_t due_ns;
    int to;
    std::string frame;
  };
  void run();
  void take(int from, std::string frame);
  void pass(int from, int to, std::string frame);
  bool is_cut(const End& end, Way way, const std::string& frame) const;
  void deliver(const Late& late) const;

  std::mutex mutex_;
  std::vector<End> ends_;
  std::map<std::string, int> host_of_;  // by the address of its device
  Faults faults_;
  std::mt19937_64 random_;
  std::deque<Late> late_;
  int64_t busy_until_ns_ = 0;
  int wake_ = -1;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace distwrap::hosts_test

#endif  // DISTWRAP_TESTS_HOSTS_CABLE_H_
