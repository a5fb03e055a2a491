// A UCP worker with its endpoints: everything in flight in one communicator.
//
// Each communicator has a worker of its own, so its end is sudden and complete:
// nothing touches the operations' memory after the worker's end, and other
// groups are not affected.
//
// Threads: `Hold` from any thread; everything else from the thread that holds
// the worker, or when no other thread can use it.
#ifndef DISTWRAP_BACKENDS_UCX_WORKER_H_
#define DISTWRAP_BACKENDS_UCX_WORKER_H_

#include "bell.h"
#include "context.h"
#include "distwrap/abi/plugin.h"
#include "hostmem/lock.h"
#include "hostmem/window.h"
#include "quiet.h"
#include "sdk/host_filter.h"
#include "sdk/kept_failure.h"
#include "transfer.h"

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace ucx_backend {

// bits of a message:  63: 0   62..44: its sender   43..40: element type, by
//                     which no receive chooses        39..0: tag
// bits of a notice:   63: 1   62..0: 0
inline constexpr ucp_tag_t kNotice = UINT64_C(1) << 63;
inline constexpr ucp_tag_t kExact = UINT64_MAX;  // all bits have to fit
inline constexpr int kTypeBits = 4;
inline constexpr ucp_tag_t kType = ((UINT64_C(1) << kTypeBits) - 1)
                                   << DW_TAG_BITS;
// The active message of windows.
inline constexpr unsigned kMessage = 0;
// Ranks that a tag has room for.
inline constexpr int kMostRanks = 1 << 19;

// The tag of a message or of its receive, with the element type.
inline ucp_tag_t tag_of(int sender, const EngineOp& call) {
  return static_cast<uint64_t>(sender) << (DW_TAG_BITS + kTypeBits) |
         static_cast<uint64_t>(call.type) << DW_TAG_BITS | call.tag;
}

class Worker {
 public:
  Worker(const dw_host_api* host, int rank, dw_sdk::KeptFailure* failure)
      : host_(host), rank_(rank), failure_(failure) {}
  ~Worker() { destroy(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // ---- before the first transfer ----
  // `hosts`: the addresses of the other ranks' hosts, from which its listeners
  // take connections; empty: from all.
  int32_t open(std::shared_ptr<Context> context,
               const std::vector<dw_sdk::HostAddress>& hosts, dw_error* error);
  const std::string& address() const { return address_; }
  struct Peer {
    std::string address;
    // Whether UCX watches the endpoint, as it does for a rank on another host.
    // Inside a host the board watches the ranks, and UCX has its fastest
    // transports only without watching.
    bool watched = false;
    // Set to this value when UCX has lost the peer, unless it is set already;
    // may be NULL.
    std::atomic<uint32_t>* gone = nullptr;
  };
  static constexpr uint32_t kLost = dw_hostmem::kLost;
  int32_t meet(std::vector<Peer> peers, dw_error* error);
  // Connects to all peers now: a rank that never writes to a rank on another
  // host does not notice its loss.
  void connect();
  // Sets the callback for the peers' active messages, which runs while a thread
  // holds the worker.
  int32_t hear(ucp_am_recv_callback_t heard, void* arg, dw_error* error);

  // ---- holding the worker ----
  class Hold {
   public:
    // For operations that wait in their calls: one at a time.
    struct Waiting {};
    Hold(Worker& worker, Waiting /*tag*/);
    // For all other threads.
    explicit Hold(Worker& worker);
    Hold(Worker& worker, std::try_to_lock_t /*tag*/);
    // For the communicator's own thread, which stops dozing.
    struct Own {};
    Hold(Worker& worker, Own /*tag*/);
    ~Hold() { release(); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

    bool owns() const { return by_ != By::kNothing; }
    void acquire();
    // Completes ended operations as well, without the lock.
    void release() {
      if (owns()) release_owned();
    }
    // For a thread that holds the worker for long.
    void let_others() {
      const dw_hostmem::Lock& lock = worker_.lock_;
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

  // ---- for the thread that holds the worker ----
  // Starts a transfer, which has ended on return or ends later. A failure
  // breaks the communicator.
  void begin(Transfer* transfer);
  // True: it has ended well at once, and its work will not be completed.
  bool begin_with_work(Transfer* transfer);
  // One access to a peer's memory, or a flush. The end of a write means that
  // its source is free; the end of a flush means that everything before has
  // arrived.
  struct Access {
    enum class What : uint8_t { kPut, kGet, kFlush, kTell };
    What what = What::kFlush;
    ucp_rkey_h key = nullptr;
    uint64_t at = 0;  // address in the peer's process
    // kTell: an active message, which its receiver may answer.
    const void* head = nullptr;
    size_t head_bytes = 0;
    const void* data = nullptr;
    size_t data_bytes = 0;
  };
  void begin(Transfer* transfer, const Access& access);
  bool begin_with_work(Transfer* transfer, const Access& access);
  // Registers a transfer that ends when it is answered.
  void expect(Transfer* transfer);
  void answered(Transfer* transfer);
  // The answer to a message, sent from the message's callback.
  struct Answer {
    Worker* worker;
    std::string head;
    std::vector<char> data;
    std::list<Answer>::iterator place;
  };
  Answer& new_answer();
  void send(Answer* answer, ucp_ep_h to);
  // The worker's key to a peer's memory; NULL when the memory cannot be
  // reached.
  ucp_rkey_h unpack(int rank, const std::string& key);
  // Sends a message to all peers to which this rank has written, as far as they
  // accept it at once.
  void tell_known(const void* what, size_t bytes);
  // Fails everything in flight with this error.
  void give_up(const dw_error& why) { break_down(why, true); }

  // Drives the worker; returns the number of events.
  unsigned progress();
  // False: there is something to progress.
  bool arm();
  // Readable when there is something to progress, once armed; -1: the worker
  // has ended.
  int descriptor() const { return descriptor_; }
  bool is_open() const { return worker_ != nullptr; }
  // Ends everything in flight, which fails with the first failure's error.
  // `tells`: the peers are told.
  void tear_down(bool tells);
  // The end without a failure: with nothing in flight it needs no draining,
  // which may take too long on a busy machine.
  void close() {
    if (open_ == nullptr)
      destroy();
    else
      tear_down(false);
  }
  // Waits until everything has left for the network, but not beyond `until_ns`.
  void flush(int64_t until_ns);

  // A bell for a thread that sleeps, to be given back after the sleep.
  std::unique_ptr<Bell> take_bell();
  void give_back(std::unique_ptr<Bell> bell);

  // ---- for the communicator's own thread ----
  // Counts the holds of other threads: as long as they drive the worker, the
  // own thread need not.
  uint64_t visits() const { return visits_.load(std::memory_order_relaxed); }
  // Precondition: held. From now until another thread holds the worker, the own
  // thread sleeps on the armed descriptor.
  void doze(const Bell* bell) { dozing_ = bell; }

  // Whether operations with a work have not ended. Called without the lock.
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
  // worker_receive.cc
  void begin_receive(Transfer* transfer);
  static ucp_request_param_t receive_of(Transfer* transfer);
  void post(Transfer* transfer);
  ucp_tag_message_h probe(const EngineOp& call, ucp_tag_recv_info_t* info);
  void take(Transfer* transfer, ucp_tag_message_h message,
            const ucp_tag_recv_info_t& info, bool begins);
  Transfer* first_awaited(const EngineOp& call) const;
  void await(Transfer* transfer);
  void take_awaited();
  void end(Transfer* transfer, ucs_status_t status);
  void refuse(Transfer* transfer, const ucp_tag_recv_info_t& message);
  void note_failure(const EngineOp& call, ucs_status_t status);
  void settle(Transfer* transfer, Transfer::State state);
  void link(Transfer* transfer);
  void unlink(Transfer* transfer);
  void expect_notice();
  template <class Send>
  void send_to_known(const Send& send);
  void tell_peers();
  // Whether somebody waits for a transfer that is in flight.
  bool has_waiting() const;
  void handle_news();
  void confirm();
  void settle_unsure(Transfer::State state);
  bool drain();
  bool may_be_connected_afar() const;
  void abandon();
  void break_down(const dw_error& why, bool tells);
  void destroy();

  const dw_host_api* const host_;
  const int rank_;
  dw_sdk::KeptFailure* const failure_;
  std::shared_ptr<Context> context_;
  const Library* ucp_ = nullptr;

  dw_hostmem::Lock lock_;
  ucp_worker_h worker_ = nullptr;
  int descriptor_ = -1;
  const Bell* dozing_ = nullptr;
  Transfer* ended_ = nullptr;         // transfers with a work to complete
  std::atomic<uint64_t> visits_ = 0;  // written by the thread that holds
  std::atomic<int> open_works_ = 0;

  // The argument of UCX's callback for the end of a peer.
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
  std::list<Answer> answers_;  // answers in flight
  Transfer* open_ = nullptr;
  Transfer* unsure_ = nullptr;  // received, but not yet confirmed
  // Receives whose messages have not come: the first one of each tag. They are
  // among `open_`, too, without a request.
  Transfer* awaited_ = nullptr;

  Notice told_ = {}, telling_ = {};
  // Found during a callback of UCX and handled after it.
  bool news_ = false;
  bool tearing_ = false;
  int given_up_ = -1;  // rank that has told that it gave up
  dw_error bad_ = {};  // code not 0: a transfer failed by itself

  std::vector<std::unique_ptr<Bell>> bells_;
};

}  // namespace ucx_backend

#endif  // DISTWRAP_BACKENDS_UCX_WORKER_H_
