// Waits for a series of keys, "<name>/0" to "<name>/<n - 1>", as ranks do that
// meet. All waits for one series are one wait of the table and have one answer,
// which a few clients get at a time. So a thousand ranks that read the words of
// a thousand take the memory of one list of keys and of a few answers.
//
// Threads: the loop's thread. Ownership: borrows table and clients; a client
// that leaves cancels its wait. `close` comes before the destruction.
//
//   series.start(request, this);   // calls on_series, perhaps at once
#ifndef DISTWRAP_SRC_STORE_SERIES_WAITS_H_
#define DISTWRAP_SRC_STORE_SERIES_WAITS_H_

#include "store/table.h"
#include "store/wire.h"

#include <uv.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace distwrap::store {

// The reply to a wait all of whose keys exist.
Reply values_of(const Table& table, const std::vector<std::string>& keys,
                bool wants_values);

class SeriesWaits {
 public:
  class Client {
   public:
    // The answer, a whole frame. Returns how many bytes of memory it takes
    // until the loop's next turn.
    virtual size_t on_series(const std::string& reply) = 0;
    // How many bytes the system has not taken yet.
    virtual size_t unsent() const = 0;
    // There is no memory for the answer.
    virtual void on_no_memory() = 0;

   protected:
    ~Client() = default;
  };

  // Name, number of keys, and whether the values are wanted.
  using Key = std::tuple<std::string, int64_t, bool>;

  SeriesWaits(uv_loop_t* loop, Table* table);
  // Calls `closed` when the loop has closed the handle.
  void close(std::function<void()> closed);

  // A client waits for one series at a time.
  void start(const Request& request, Client* client);
  void cancel(Client* client);
  // The indices of the keys that a client still misses, whose wait ends
  // thereby; nullopt when its answer is about to come.
  std::optional<std::vector<uint32_t>> give_up(Client* client);

 private:
  struct Series {
    Wait wait;
    std::set<Client*> clients;
  };
  // An answer to a client that came when all keys existed is made late: then
  // others that wait for it share it.
  struct Answer {
    Client* client;
    Key key;
    std::shared_ptr<const std::string> reply;  // null: not made yet
  };
  struct UnderWay {
    Client* client;
    int64_t since_ns;
  };

  void wait(const Key& key, Client* client);
  void finish(const Key& key);
  std::shared_ptr<const std::string> make(const Key& key,
                                          const std::vector<std::string>& keys);
  void make_late(Answer* answer);
  void give_answers();
  void on_turn();

  Table& table_;
  uv_timer_t timer_ = {};
  std::function<void()> closed_;
  std::map<Key, std::shared_ptr<Series>> open_;
  std::map<Client*, Key> waiting_;
  // A series whose clients are in `answers_`. It may still be in use by the
  // table, so it stays until the next one comes.
  std::shared_ptr<Series> finished_;
  std::vector<Answer> answers_;  // the first one is next
  std::vector<UnderWay> under_way_;
  size_t under_way_bytes_ = 0;
};

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_SERIES_WAITS_H_
