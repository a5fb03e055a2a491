// A UCP worker with its endpoints: what is in flight in one communicator.
//
// A communicator has a worker for itself. So its end is sudden and complete:
// with the worker everything goes that could still touch anybody's memory, and
// other groups notice nothing.
//
// Threads: `Hold` from any; everything else by who holds, or where nobody else
// can be.
#ifndef DISTWRAP_BACKENDS_UCX_WORKER_H_
#define DISTWRAP_BACKENDS_UCX_WORKER_H_

#include "bell.h"
#include "context.h"
#include "distwrap/abi/plugin.h"
#include "failure.h"
#include "lock.h"
#include "quiet.h"
#include "transfer.h"

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace ucx_backend {

// bits of a message:  63: 0   62..40: its sender   39..0: tag
// bits of a notice:   63: 1   62..0: 0
inline constexpr ucp_tag_t kNotice = UINT64_C(1) << 63;
inline constexpr ucp_tag_t kExact = UINT64_MAX;  // all bits have to fit
// The active message of windows.
inline constexpr unsigned kMessage = 0;
// Ranks that a tag has room for.
inline constexpr int kMostRanks = 1 << 23;

class Worker {
 public:
  Worker(const dw_host_api* host, int rank, FirstFailure* failure)
      : host_(host), rank_(rank), failure_(failure) {}
  ~Worker() { destroy(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // ---- before the first transfer ----
  int32_t open(std::shared_ptr<Context> context, dw_error* error);
  const std::string& address() const { return address_; }
  struct Peer {
    std::string address;
    // On another host: UCX watches it. Inside a host the board of the host
    // does, and UCX has its fastest transports only without.
    bool watched = false;
    // Set to this when UCX has lost it, unless it is set already; may be NULL.
    std::atomic<uint32_t>* gone = nullptr;
  };
  static constexpr uint32_t kLost = 2;
  int32_t meet(std::vector<Peer> peers, dw_error* error);
  // To all peers now: who never writes to a rank on another host does not hear
  // that it is lost.
  void connect();
  bool has_met() const { return !peers_.empty(); }
  // Who hears the peers' active messages, while somebody holds.
  int32_t hear(ucp_am_recv_callback_t heard, void* arg, dw_error* error);

  // ---- who may call ----
  class Hold {
   public:
    // Of operations that wait in their calls: one at a time.
    struct Waiting {};
    Hold(Worker& worker, Waiting /*tag*/);
    // Of everybody else.
    explicit Hold(Worker& worker);
    Hold(Worker& worker, std::try_to_lock_t /*tag*/);
    // Of the communicator's own thread, which no longer dozes.
    struct Own {};
    Hold(Worker& worker, Own /*tag*/);
    ~Hold() { release(); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

    bool owns() const { return by_ != By::kNothing; }
    void acquire();
    // Completes what has ended, too, without the lock.
    void release() {
      if (owns()) release_owned();
    }
    // For who holds it for long.
    void let_others() {
      const Lock& lock = worker_.lock_;
      if ((by_ == By::kInside ? lock.wanted_from_inside() : lock.wanted()) ||
          worker_.ended_ != nullptr) [[unlikely]]
        give_way();
    }

   private:
    enum class By : uint8_t { kNothing, kInside, kLock };

    void entered(By by);
    void release_owned();
    void give_way();

    Worker& worker_;
    const LogTo log_;
    const bool waiting_ = false, own_ = false;
    By by_ = By::kNothing;
  };

  // ---- held ----
  // The transfer has ended, or it will. What fails breaks the communicator.
  void begin(Transfer* transfer);
  // True: it has ended well at once, and its work will not be completed.
  bool begin_with_work(Transfer* transfer);
  // One access to a peer's memory, or what orders them. Of a write the end says
  // that its source is free, of a flush that everything before is there.
  struct Access {
    enum class What : uint8_t { kPut, kGet, kFlush, kTell };
    What what = What::kFlush;
    ucp_rkey_h key = nullptr;
    uint64_t at = 0;  // in the peer's process
    // kTell: an active message, whose receiver may answer.
    const void* head = nullptr;
    size_t head_bytes = 0;
    const void* data = nullptr;
    size_t data_bytes = 0;
  };
  void begin(Transfer* transfer, const Access& access);
  bool begin_with_work(Transfer* transfer, const Access& access);
  // Ends when it is answered.
  void expect(Transfer* transfer);
  void answered(Transfer* transfer);
  // What answers a message, from where it is heard.
  struct Answer {
    Worker* worker;
    std::string head;
    std::vector<char> data;
    std::list<Answer>::iterator place;
  };
  Answer& new_answer();
  void send(Answer* answer, ucp_ep_h to);
  // A peer's memory, of the worker; NULL when it cannot be reached. Where this
  // process can load and store it `*mapped` says, if that is asked.
  ucp_rkey_h unpack(int rank, const std::string& key, uint64_t at,
                    void** mapped);
  void drop(ucp_rkey_h key);
  // A message to all peers that this rank has written to, as far as they take
  // it at once.
  void tell_known(const void* what, size_t bytes);
  // Everything in flight fails with this.
  void give_up(const dw_error& why) { break_down(why, true); }

  // The number of events.
  unsigned progress();
  // False: there is something to progress.
  bool arm();
  // Readable when there is something to progress, once armed; -1: it is over.
  int descriptor() const { return descriptor_; }
  bool is_open() const { return worker_ != nullptr; }
  // Ends everything in flight, which fails with the failure's first error.
  // `tells`: the peers get to know.
  void tear_down(bool tells);
  // The end when all goes well: with nothing in flight it needs no draining,
  // which on a busy machine may take too long.
  void close() {
    if (open_ == nullptr)
      destroy();
    else
      tear_down(false);
  }
  // Waits until everything has left for the network, at most so long.
  void flush(int64_t until_ns);

  // Of a thread that sleeps; given back for another one.
  std::unique_ptr<Bell> take_bell();
  void give_back(std::unique_ptr<Bell> bell);

  // ---- for the communicator's own thread ----
  // Counts who was here: as long as others drive the worker, it need not.
  uint64_t visits() const { return visits_.load(std::memory_order_relaxed); }
  // Held: from now until somebody else holds, the thread sleeps on what it has
  // armed.
  void doze(const Bell* bell) { dozing_ = bell; }

  // Operations with a work that have not ended. Without the lock.
  bool has_open_works() const {
    return open_works_.load(std::memory_order_acquire) != 0;
  }

 private:
  friend class Hold;

  struct Notice {
    int32_t rank;
    int32_t reserved;
  };

  static void sent(void* request, ucs_status_t status, void* transfer);
  static void received(void* request, ucs_status_t status,
                       const ucp_tag_recv_info_t* info, void* transfer);
  static void answer_sent(void* request, ucs_status_t status, void* answer);
  static void noticed(void* request, ucs_status_t status,
                      const ucp_tag_recv_info_t* info, void* worker);
  static void lost(void* peer, ucp_ep_h endpoint, ucs_status_t status);

  int32_t connect_inside(dw_error* error);
  ucp_ep_h endpoint(int rank);
  void started(Transfer* transfer, ucs_status_ptr_t request);
  void end(Transfer* transfer, ucs_status_t status, size_t bytes);
  void note_failure(const Call& call, ucs_status_t status, size_t bytes);
  void settle(Transfer* transfer, Transfer::State state);
  void link(Transfer* transfer);
  void unlink(Transfer* transfer);
  void expect_notice();
  template <class Send>
  void send_to_known(const Send& send);
  void tell_peers();
  void handle_news();
  void confirm();
  void settle_unsure(Transfer::State state);
  bool drain();
  void abandon();
  void break_down(const dw_error& why, bool tells);
  void destroy();

  const dw_host_api* const host_;
  const int rank_;
  FirstFailure* const failure_;
  std::shared_ptr<Context> context_;
  const Library* ucp_ = nullptr;

  Lock lock_;
  ucp_worker_h worker_ = nullptr;
  int descriptor_ = -1;
  const Bell* dozing_ = nullptr;
  Transfer* ended_ = nullptr;         // with a work, to be completed
  std::atomic<uint64_t> visits_ = 0;  // written by who holds
  std::atomic<int> open_works_ = 0;

  // What a peer's end was about.
  struct Endpoint {
    Worker* worker = nullptr;
    int rank = 0;
    ucp_ep_h handle = nullptr;
    bool lost = false;
    ucs_status_t cause = UCS_OK;
  };
  std::string address_;
  std::vector<Peer> peers_;
  std::vector<Endpoint> endpoints_;
  std::vector<ucp_rkey_h> keys_;
  std::list<Answer> answers_;  // on their way
  Transfer* open_ = nullptr;
  Transfer* unsure_ = nullptr;  // received, but not yet confirmed

  Notice told_ = {}, telling_ = {};
  // Found while UCX called back: handled when it has returned.
  bool news_ = false;
  bool tearing_ = false;
  int given_up_ = -1;  // the rank that says so
  dw_error bad_ = {};  // code not 0: a transfer failed by itself

  std::vector<std::unique_ptr<Bell>> bells_;
};

}  // namespace ucx_backend

#endif  // DISTWRAP_BACKENDS_UCX_WORKER_H_
