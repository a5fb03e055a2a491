// The opened backends of a session. Groups with the same backend, device and
// hints share one, so a further group costs no listener or thread.
//
// Threads: any. Ownership: an instance lives as long as a communicator on it.
#ifndef DISTWRAP_SRC_GROUP_INSTANCES_H_
#define DISTWRAP_SRC_GROUP_INSTANCES_H_

#include "base/mutex.h"
#include "comm/backend_instance.h"
#include "group/backend_string.h"
#include "group/tuning_file.h"
#include "plugin/registry.h"

#include <absl/status/statusor.h>

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace distwrap::group {

class Instances {
 public:
  // `registry` outlives this object. `trace` is the prefix of files to which
  // submissions are written; empty: none are written.
  // `address`: this host's in the network of the job's hosts, "" for none.
  explicit Instances(plugin::Registry& registry, std::string trace = {},
                     TuningFile tuning = {}, std::string address = {})
      : registry_(registry),
        trace_(std::move(trace)),
        tuning_(std::move(tuning)),
        address_(std::move(address)) {}

  // Opens with the hints that the backend knows, the values of the tuning file
  // and the address of this host. These two are not among the group's hints,
  // which are equal on all ranks. Errors: those of the registry and of
  // BackendInstance::open.
  absl::StatusOr<std::shared_ptr<comm::BackendInstance>> open(
      const std::string& backend, Device device, const comm::Hints& hints);

  // The backend tables of a group.
  absl::StatusOr<std::vector<plugin::BackendPtr>> tables(
      const std::vector<BackendChoice>& choices);

 private:
  using Key = std::tuple<std::string, int32_t, int32_t, comm::Hints>;

  plugin::Registry& registry_;
  const std::string trace_;
  const TuningFile tuning_;
  const std::string address_;
  base::Mutex mutex_;
  std::map<Key, std::weak_ptr<comm::BackendInstance>> opened_
      ABSL_GUARDED_BY(mutex_);
  int traces_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace distwrap::group

#endif  // DISTWRAP_SRC_GROUP_INSTANCES_H_
