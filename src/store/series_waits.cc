#include "store/series_waits.h"

#include "distwrap/deadline.h"
#include "distwrap/store.h"

#include <algorithm>
#include <new>
#include <utility>

namespace distwrap::store {
namespace {

// While so many bytes of answers are under way, no further answer begins. A
// client that takes nothing for a while does not count any more.
constexpr size_t kMostUnsent = 4 << 20;
constexpr int64_t kPatienceNs = 1'000'000'000;
constexpr uint64_t kLookMs = 1;

}  // namespace

namespace {

std::vector<std::string> keys_of(const SeriesWaits::Key& key) {
  return store::keys_of({.op = Op::kGetAll,
                         .keys = {std::get<0>(key)},
                         .number = std::get<1>(key)});
}

}  // namespace

Reply values_of(const Table& table, const std::vector<std::string>& keys,
                bool wants_values) {
  Reply reply;
  if (!wants_values) return reply;
  reply.texts.reserve(keys.size());
  size_t total = 0;
  for (const std::string& key : keys) {
    const std::string& value = *table.find(key);
    total += value.size() + sizeof(uint32_t);
    if (total > Store::kMaxValueBytes + sizeof(uint32_t))
      return {.answer = Answer::kTooLong};
    reply.texts.push_back(value);
  }
  return reply;
}

SeriesWaits::SeriesWaits(uv_loop_t* loop, Table* table) : table_(*table) {
  uv_timer_init(loop, &timer_);
  timer_.data = this;
}

void SeriesWaits::close(std::function<void()> closed) {
  closed_ = std::move(closed);
  uv_close(reinterpret_cast<uv_handle_t*>(&timer_), [](uv_handle_t* handle) {
    // The callback may destroy this object.
    const auto then =
        std::move(static_cast<SeriesWaits*>(handle->data)->closed_);
    then();
  });
}

void SeriesWaits::start(const Request& request, Client* client) {
  wait({request.keys.front(), request.number, request.op == Op::kGetAll},
       client);
  give_answers();
}

void SeriesWaits::wait(const Key& key, Client* client) {
  if (const auto known = open_.find(key); known != open_.end()) {
    waiting_.emplace(client, key);
    known->second->clients.insert(client);
    return;
  }
  auto series = std::make_shared<Series>();
  series->wait.keys = keys_of(key);
  series->wait.ready = [this, key] { finish(key); };
  series->clients.insert(client);
  under_way_.reserve(answers_.size() + 1);
  answers_.push_back({client, key, nullptr});
  waiting_.emplace(client, key);
  open_.emplace(key, series);
  const bool is_complete = table_.start(&series->wait);
  if (is_complete) {
    open_.erase(key);
    waiting_.erase(client);
  } else {
    answers_.pop_back();
  }
}

void SeriesWaits::cancel(Client* client) {
  const auto is_clients = [client](const auto& one) {
    return one.client == client;
  };
  answers_.erase(std::remove_if(answers_.begin(), answers_.end(), is_clients),
                 answers_.end());
  under_way_.erase(
      std::remove_if(under_way_.begin(), under_way_.end(), is_clients),
      under_way_.end());
  const auto found = waiting_.find(client);
  if (found == waiting_.end()) return;
  const auto series = open_.find(found->second);
  waiting_.erase(found);
  if (series == open_.end()) return;
  series->second->clients.erase(client);
  if (!series->second->clients.empty()) return;
  table_.cancel(&series->second->wait);
  open_.erase(series);
}

std::optional<std::vector<uint32_t>> SeriesWaits::give_up(Client* client) {
  const auto found = waiting_.find(client);
  if (found == waiting_.end()) return std::nullopt;
  std::vector<uint32_t> missing;
  const std::vector<std::string>& keys = open_.at(found->second)->wait.keys;
  for (size_t i = 0; i < keys.size(); ++i)
    if (table_.find(keys[i]) == nullptr)
      missing.push_back(static_cast<uint32_t>(i));
  cancel(client);
  return missing;
}

// All keys of a series have come.
void SeriesWaits::finish(const Key& key) {
  const auto found = open_.find(key);
  finished_ = found->second;
  open_.erase(found);
  const std::set<Client*> clients = std::exchange(finished_->clients, {});
  for (Client* const client : clients) waiting_.erase(client);
  try {
    const auto reply = make(key, finished_->wait.keys);
    answers_.reserve(answers_.size() + clients.size());
    under_way_.reserve(answers_.capacity());
    for (Client* const client : clients)
      answers_.push_back({client, key, reply});
  } catch (const std::bad_alloc&) {
    for (Client* const client : clients) client->on_no_memory();
    return;
  }
  give_answers();
}

std::shared_ptr<const std::string> SeriesWaits::make(
    const Key& key, const std::vector<std::string>& keys) {
  return std::make_shared<const std::string>(
      encode(values_of(table_, keys, std::get<2>(key))));
}

// Makes an answer, also for the others that want it. A key may have been
// deleted since: then the client waits again.
void SeriesWaits::make_late(Answer* answer) {
  try {
    const std::vector<std::string> keys = keys_of(answer->key);
    if (!table_.missing(keys).empty()) return wait(answer->key, answer->client);
    answer->reply = make(answer->key, keys);
    for (Answer& other : answers_)
      if (other.reply == nullptr && other.key == answer->key)
        other.reply = answer->reply;
  } catch (const std::bad_alloc&) {
    answer->client->on_no_memory();
  }
}

void SeriesWaits::give_answers() {
  // A client may cancel others' answers, or its own.
  while (!answers_.empty() && under_way_bytes_ < kMostUnsent) {
    Answer next = answers_.front();
    answers_.erase(answers_.begin());
    if (next.reply == nullptr) make_late(&next);
    if (next.reply == nullptr) continue;
    const size_t taken = next.client->on_series(*next.reply);
    if (taken != 0) under_way_.push_back({next.client, Deadline::now_ns()});
    under_way_bytes_ += taken;
  }
  if (!under_way_.empty())
    uv_timer_start(
        &timer_,
        [](uv_timer_t* timer) {
          static_cast<SeriesWaits*>(timer->data)->on_turn();
        },
        kLookMs, kLookMs);
}

// Even bytes that the system has taken are free only in the loop's next turn.
void SeriesWaits::on_turn() {
  const int64_t now = Deadline::now_ns();
  under_way_bytes_ = 0;
  under_way_.erase(
      std::remove_if(under_way_.begin(), under_way_.end(),
                     [&](const UnderWay& one) {
                       const size_t left = one.client->unsent();
                       if (left == 0 || now - one.since_ns > kPatienceNs)
                         return true;
                       under_way_bytes_ += left;
                       return false;
                     }),
      under_way_.end());
  if (under_way_.empty()) uv_timer_stop(&timer_);
  give_answers();
}

}  // namespace distwrap::store
