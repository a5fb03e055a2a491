// The ranks of one communicator of the fake NCCL, and where their kernels meet.
#ifndef DISTWRAP_TESTS_FAKES_NCCL_CLIQUE_H_
#define DISTWRAP_TESTS_FAKES_NCCL_CLIQUE_H_

#include "fakes/nccl/arithmetic.h"

#include <array>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace fakes::nccl {

enum class Kind : uint8_t {
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kGather,
  kScatter,
  kMessage,  // a send or a receive
  // One-sided: only one rank makes the call.
  kPut,
  kSignal,
  kWaitSignal,  // until `count` more signals of the peer have come
};
constexpr bool is_one_sided(Kind kind) { return kind >= Kind::kPut; }

// One call of a rank.
struct Part {
  Kind kind = Kind::kAllReduce;
  const void* in = nullptr;
  void* out = nullptr;
  size_t count = 0;
  int type = 0;
  Reduction reduction;
  std::string factor;               // the bytes of a premul_sum's factor, or
  const void* factor_at = nullptr;  // where the device reads it
  int peer = -1;                    // root; the other rank of a message
  bool sends = false;
  // A put has the window, numbered in the order in which the ranks made them,
  // and the place in the peer's part.
  uint64_t window = 0;
  size_t offset = 0;
  // Whether the memory of the call is, where there is any.
  std::optional<bool> registered;
};

// The ranks meet by keys: what the call is, and the how-manieth of its sort.
using Key = std::array<uint64_t, 4>;

// Threads: any.
class Clique {
 public:
  Clique(std::string id, int ranks) : id_(std::move(id)), size_(ranks) {}
  virtual ~Clique() = default;

  // Equal on all ranks.
  const std::string& id() const { return id_; }
  int size() const { return size_; }

  // A rank joins, or connects; `true` once all of `ranks` have come by this
  // key. `gone` ends the wait.
  virtual bool wait_for_all(const Key& key, int rank, int ranks,
                            const std::function<bool()>& gone) = 0;
  // Runs the parts of one kernel, all at the same time: posts them, then waits
  // until the other ranks have posted theirs. The last one moves the data.
  // `gone` ends the wait; parts that nobody has met are then withdrawn.
  virtual void run(int rank, int device,
                   const std::vector<std::pair<Key, Part>>& parts,
                   const std::function<bool()>& gone) = 0;
  // Windows, by their numbers: a rank's part is added before it is used, and
  // removed when nobody may write there any more. Only of ranks that are
  // threads; false otherwise.
  virtual bool add_window(uint64_t /*number*/, int /*rank*/, int /*device*/,
                          char* /*at*/, size_t /*bytes*/) {
    return false;
  }
  // After an abort, puts of ranks that have not been aborted yet still go to
  // the memory, which they keep mapped.
  virtual void remove_window(uint64_t /*number*/, int /*rank*/,
                             bool /*by_abort*/) {}
  // Runs a one-sided call of a rank.
  virtual void run_one_sided(int /*rank*/, int /*device*/, const Part& /*part*/,
                             const std::function<bool()>& /*gone*/) {}
  // Looks at `gone` again.
  virtual void wake() {}

 private:
  const std::string id_;
  const int size_;
};

// Where the ranks are threads of this process, or processes that meet by a hub
// (hub.h), which this process has been told of.
std::shared_ptr<Clique> make_clique(const std::string& id, int ranks);

// Ranks that are threads.
class LocalClique final : public Clique {
 public:
  using Clique::Clique;
  bool wait_for_all(const Key& key, int rank, int ranks,
                    const std::function<bool()>& gone) override;
  void run(int rank, int device, const std::vector<std::pair<Key, Part>>& parts,
           const std::function<bool()>& gone) override;
  bool add_window(uint64_t number, int rank, int device, char* at,
                  size_t bytes) override;
  void remove_window(uint64_t number, int rank, bool by_abort) override;
  void run_one_sided(int rank, int device, const Part& part,
                     const std::function<bool()>& gone) override;
  void wake() override;

 private:
  struct WindowPart {
    int device = 0;
    char* at = nullptr;
    size_t bytes = 0;
  };
  struct Posted {
    Part part;
    int rank = 0, device = 0;
  };
  struct Meeting {
    std::vector<Posted> posted;
    bool done = false, differs = false;
    int left = 0;  // ranks that have to see that it is done
  };

  void post(const Key& key, const Posted& posted);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, Meeting> meetings_;
  std::map<Key, std::set<int>> joined_;
  std::map<std::pair<uint64_t, int>, WindowPart> windows_;
  // Signals that were raised and not waited for, by sender and target.
  std::map<std::pair<int, int>, size_t> signals_;
};

}  // namespace fakes::nccl

#endif  // DISTWRAP_TESTS_FAKES_NCCL_CLIQUE_H_
