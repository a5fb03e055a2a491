// A library with blocks, as this process knows it.
#ifndef DISTWRAP_SRC_DISPATCH_LIBRARY_H_
#define DISTWRAP_SRC_DISPATCH_LIBRARY_H_

#include "distwrap/registration.h"

#include <atomic>
#include <string>
#include <vector>

namespace distwrap::dispatch {

struct LoadedLibrary {
  LibraryInfo info;
  int blocks = 0;
  std::vector<Registration> kept;
  std::vector<std::string> ended;  // the registrations that unloading has ended
  absl::Status status;
  void* handle = nullptr;  // dlopen's, where load_library made it
  bool unloading = false;
  // Nodes of gradients, storages and modes that need the code of the library.
  std::atomic<int64_t> objects{0};

  // Undoes the registrations, the newest first.
  void end_registrations();
};

}  // namespace distwrap::dispatch

#endif  // DISTWRAP_SRC_DISPATCH_LIBRARY_H_
