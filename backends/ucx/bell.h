// What a sleeping thread waits for beside a worker's descriptor.
#ifndef DISTWRAP_BACKENDS_UCX_BELL_H_
#define DISTWRAP_BACKENDS_UCX_BELL_H_

namespace ucx_backend {

// Threads: `ring` from any, the rest from the one that sleeps.
class Bell {
 public:
  Bell();
  ~Bell();
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;

  // False: no descriptor was left, and a sleep is a short nap.
  bool works() const { return fd_ >= 0; }
  void ring() const;
  // Until it rings, or `fd` is readable unless that is -1, or some time has
  // passed; -1: no limit. What has rung is forgotten.
  void sleep(int fd, int most_ms) const;

 private:
  const int fd_;
};

}  // namespace ucx_backend

#endif  // DISTWRAP_BACKENDS_UCX_BELL_H_
