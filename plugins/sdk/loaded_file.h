// The file from which an address was loaded. C++ only.
//
// Threads: a pure function.
#ifndef DISTWRAP_PLUGINS_SDK_LOADED_FILE_H_
#define DISTWRAP_PLUGINS_SDK_LOADED_FILE_H_

#include <dlfcn.h>
#include <string>

namespace dw_sdk {

// The program or library of a function or variable; "" when it is in none.
inline std::string file_of(const void* address) {
  Dl_info place = {};
  return dladdr(address, &place) != 0 && place.dli_fname != nullptr
             ? place.dli_fname
             : "";
}

}  // namespace dw_sdk

#endif  // DISTWRAP_PLUGINS_SDK_LOADED_FILE_H_
