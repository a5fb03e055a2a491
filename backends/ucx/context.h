// UCX's context. The transports are given to UCX as explicit settings, never
// through the process's environment.
#ifndef DISTWRAP_BACKENDS_UCX_CONTEXT_H_
#define DISTWRAP_BACKENDS_UCX_CONTEXT_H_

#include "distwrap/abi/types.h"
#include "library.h"

#include <memory>
#include <string>

namespace ucx_backend {

// Whether all ranks of a group are on one host.
enum class HostSpan { kOneHost, kHosts };

class Context {
 public:
  enum class Use { kMessages, kAccess };
  // Whether these transports are meant to share memory inside a host.
  static bool shares_memory(const std::string& transports);
  // `transports` has the form of UCX_TLS; empty: the default for this span.
  // `interface`: the one for TCP between hosts, unless UCX_NET_DEVICES is set;
  // empty: UCX chooses.
  static int32_t open(const Library& library, HostSpan span,
                      const std::string& transports,
                      const std::string& interface, Use use,
                      std::shared_ptr<Context>* context, dw_error* error);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Library& library() const { return library_; }
  ucp_context_h get() const { return context_; }

 private:
  Context(const Library& library, ucp_context_h context)
      : library_(library), context_(context) {}

  const Library& library_;
  const ucp_context_h context_;
};

int32_t fail_ucx(const Library& library, const char* call, ucs_status_t status,
                 dw_error* error);

}  // namespace ucx_backend

#endif  // DISTWRAP_BACKENDS_UCX_CONTEXT_H_
