#include "engine_functions.h"

#include <gloo/allgather.h>
#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/hash_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>

#include <memory>
#include <stdexcept>
#include <string>

namespace distwrap {
namespace {

std::shared_ptr<gloo::rendezvous::Context> alone() {
  static const auto context = [] {
    auto made = std::make_shared<gloo::rendezvous::Context>(0, 1);
    gloo::rendezvous::HashStore store;
    gloo::transport::tcp::attr place;
    place.iface = "lo";
    auto device = gloo::transport::tcp::CreateDevice(place);
    made->connectFullMesh(store, device);
    return made;
  }();
  return context;
}

// The memory of a call: what comes out has to be what went in.
struct Memory {
  int in[2] = {3, 4}, out[2] = {0, 0};
};

// One collective, with options that `fill` completes.
template <class Options>
EngineFunction collective(const char* name, void (*function)(Options&),
                          std::function<void(Options&, Memory&)> fill) {
  return {name, [=] {
            Memory memory;
            Options options(alone());
            fill(options, memory);
            try {
              function(options);
            } catch (const std::runtime_error& error) {
              const std::string text = error.what();
              return text.find("kDirectCall") != std::string::npos &&
                             text.find("distwrap_") != std::string::npos
                         ? Outcome::kRefused
                         : Outcome::kWrong;
            }
            return memory.out[0] == 3 && memory.out[1] == 4 ? Outcome::kDone
                                                            : Outcome::kWrong;
          }};
}

template <class Options>
void two(Options& options, Memory& memory) {
  options.setInput(memory.in, 2);
  options.setOutput(memory.out, 2);
}

void sum(void* c, const void* a, const void* b, size_t n) {
  gloo::sum<int>(c, a, b, n);
}

}  // namespace

std::vector<EngineFunction> gloo_functions() {
  using namespace gloo;  // NOLINT(google-build-using-namespace)
  return {
      collective<AllgatherOptions>("gloo::allgather", &allgather,
                                   &two<AllgatherOptions>),
      collective<AllgathervOptions>("gloo::allgatherv", &allgatherv,
                                    [](AllgathervOptions& o, Memory& m) {
                                      o.setInput(m.in, 2);
                                      o.setOutput(m.out,
                                                  std::vector<size_t>{2});
                                    }),
      {"gloo::allreduce",
       [] {
         const auto call = collective<AllreduceOptions>(
             "gloo::allreduce",
             [](AllreduceOptions& o) {
               const AllreduceOptions& constant = o;
               allreduce(constant);
             },
             [](AllreduceOptions& o, Memory& m) {
               two(o, m);
               o.setReduceFunction(&sum);
             });
         return call.call();
       }},
      collective<AlltoallOptions>("gloo::alltoall", &alltoall,
                                  &two<AlltoallOptions>),
      collective<AlltoallvOptions>("gloo::alltoallv", &alltoallv,
                                   [](AlltoallvOptions& o, Memory& m) {
                                     o.setInput(m.in, std::vector<int64_t>{2});
                                     o.setOutput(m.out,
                                                 std::vector<int64_t>{2});
                                   }),
      collective<BarrierOptions>("gloo::barrier", &barrier,
                                 [](BarrierOptions&, Memory& m) {
                                   m.out[0] = 3;
                                   m.out[1] = 4;
                                 }),
      collective<BroadcastOptions>("gloo::broadcast", &broadcast,
                                   [](BroadcastOptions& o, Memory& m) {
                                     two(o, m);
                                     o.setRoot(0);
                                   }),
      collective<GatherOptions>("gloo::gather", &gather,
                                [](GatherOptions& o, Memory& m) {
                                  two(o, m);
                                  o.setRoot(0);
                                }),
      collective<ReduceOptions>("gloo::reduce", &reduce,
                                [](ReduceOptions& o, Memory& m) {
                                  two(o, m);
                                  o.setRoot(0);
                                  o.setReduceFunction(&sum);
                                }),
      collective<ScatterOptions>("gloo::scatter", &scatter,
                                 [](ScatterOptions& o, Memory& m) {
                                   o.setInputs(std::vector<int*>{m.in}, 2);
                                   o.setOutput(m.out, 2);
                                   o.setRoot(0);
                                 }),
  };
}

}  // namespace distwrap
