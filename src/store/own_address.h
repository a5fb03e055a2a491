// Whether a name or address means this host.
//
// Threads: any. May ask the resolver about a name that is neither an address
// nor this host's own name.
#ifndef DISTWRAP_SRC_STORE_OWN_ADDRESS_H_
#define DISTWRAP_SRC_STORE_OWN_ADDRESS_H_

#include <absl/strings/string_view.h>

namespace distwrap::store {

// `host` is a name, an IPv4 address, or an IPv6 address, perhaps in brackets.
// False for a name that nobody knows.
bool is_own_address(absl::string_view host);

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_OWN_ADDRESS_H_
