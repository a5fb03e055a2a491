// Wakes a sleeping thread; the thread also waits for a worker's descriptor.
#ifndef DISTWRAP_BACKENDS_UCX_BELL_H_
#define DISTWRAP_BACKENDS_UCX_BELL_H_

namespace ucx_backend {

// Threads: `ring` from any; the other calls from the thread that sleeps.
class Bell {
 public:
  Bell();
  ~Bell();
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;

  // False: no descriptor was available, and a sleep is a short pause.
  bool works() const { return fd_ >= 0; }
  void ring() const;
  // Sleeps until the bell rings, until `fd` is readable unless it is -1, or for
  // `most_ms`; -1: no limit. Clears the ring.
  void sleep(int fd, int most_ms) const;

 private:
  const int fd_;
};

}  // namespace ucx_backend

#endif  // DISTWRAP_BACKENDS_UCX_BELL_H_
