#include "moe/topology.h"

#include <map>

namespace distwrap::moe {

Topology::Topology(absl::Span<const int32_t> host_of) {
  std::map<int32_t, int32_t> numbers;
  std::vector<int32_t> sizes;
  for (const int32_t host : host_of) {
    const auto [at, is_new] =
        numbers.emplace(host, static_cast<int32_t>(numbers.size()));
    if (is_new) sizes.push_back(0);
    node_of_.push_back(at->second);
    lane_of_.push_back(sizes[static_cast<size_t>(at->second)]++);
  }
  for (const int32_t size : sizes) first_.push_back(first_.back() + size);
  members_.resize(host_of.size());
  for (size_t r = 0; r < host_of.size(); ++r)
    members_[static_cast<size_t>(first_[static_cast<size_t>(node_of_[r])] +
                                 lane_of_[r])] = static_cast<int32_t>(r);
}

Experts::Experts(int64_t count, int ranks, absl::Span<const int32_t> rank_of) {
  const auto n = static_cast<size_t>(count);
  const int64_t each = count / ranks;
  rank_of_.resize(n);
  bucket_of_.resize(n);
  grouped_.resize(n);
  first_.assign(static_cast<size_t>(ranks) + 1, 0);
  for (size_t e = 0; e < n; ++e) {
    rank_of_[e] = rank_of.empty()
                      ? static_cast<int32_t>(static_cast<int64_t>(e) / each)
                      : rank_of[e];
    bucket_of_[e] = first_[static_cast<size_t>(rank_of_[e]) + 1]++;
  }
  for (size_t r = 0; r < static_cast<size_t>(ranks); ++r)
    first_[r + 1] += first_[r];
  for (size_t e = 0; e < n; ++e)
    grouped_[static_cast<size_t>(first_[static_cast<size_t>(rank_of_[e])] +
                                 bucket_of_[e])] = static_cast<int32_t>(e);
}

}  // namespace distwrap::moe
