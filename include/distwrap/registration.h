// Registering operators and kernels.
//
// A library, or a program, has one block in each file that registers:
//
//   DW_OPERATORS(lib) {
//     Namespace demo = lib.own("demo");
//     demo.def("clip_(Tensor(a!) self, float max) -> Tensor(a!)",
//              {Tag::kPointwise});
//     demo.impl("scale", kCompositeImplicit, kernel<&scale>());
//     lib.impl("demo::clip_", {kDense, kCpu}, kernel<&clip_cpu>());
//     lib.extend("dw").def("relu6(Tensor x) -> Tensor");
//     lib.fallback(kUser1, boxed(&log_call));
//   }
//
// Blocks run when their library is loaded, in any order: kernels may come
// before definitions. A block is all or nothing.
//
// Threads: registrations are serialized; calls go on meanwhile. Ownership: a
// Registration undoes what it stands for when it ends.
#ifndef DISTWRAP_REGISTRATION_H_
#define DISTWRAP_REGISTRATION_H_

#include "distwrap/abi/note.h"
#include "distwrap/deadline.h"
#include "distwrap/export.h"
#include "distwrap/kernel.h"
#include "distwrap/operator.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

namespace distwrap::dispatch {

// A tag says what an operator promises besides its schema.
enum class Tag : uint32_t {
  kPointwise = 1,         // element by element
  kRandom = 2,            // draws random numbers
  kMayAliasOrMutate = 4,  // the schema is not the whole truth
  kSideEffect = 8,        // must not be dropped although nobody uses the result
  kCollective = 16,       // communicates
  // The first two follow from the schema unless they are given.
  kPure = 32,          // neither writes nor has another effect
  kView = 64,          // a result is a view of an argument
  kInplaceView = 128,  // changes the shape of its argument, not its memory
};

// Where a kernel belongs: a layer, for one backend where the layer has kernels
// by backend, or one of the groups of slots.
struct Target {
  enum class Kind : uint8_t {
    kSlot,
    kAutogradAlias,      // autograd of all backends
    kCompositeImplicit,  // made of other operators, differentiable through them
    kCompositeExplicit,  // made of other operators, with a gradient of its own
  };
  constexpr Target(Key layer)  // NOLINT(google-explicit-constructor)
      : kind(layer == kAutograd ? Kind::kAutogradAlias : Kind::kSlot),
        key(layer) {}
  constexpr Target(Key layer, Device device)
      : kind(Kind::kSlot), key(layer), backend(backend_of(device)) {}
  constexpr explicit Target(Kind group) : kind(group), key(kDense) {}

  Kind kind;
  Key key;
  int backend = -1;
};
inline constexpr Target kCompositeImplicit{Target::Kind::kCompositeImplicit};
inline constexpr Target kCompositeExplicit{Target::Kind::kCompositeExplicit};

// A kernel for a place that has one is refused, or goes on top of it.
enum class Existing : uint8_t { kRefuse, kOverride };

// One registration; it is undone at the end of this object.
class DISTWRAP_EXPORT Registration {
 public:
  Registration() = default;
  explicit Registration(uint64_t id) : id_(id) {}
  Registration(Registration&& other) noexcept
      : id_(std::exchange(other.id_, 0)) {}
  Registration& operator=(Registration&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  ~Registration() { end(); }
  void end();
  // The line that LibraryInfo has for the registration.
  std::string text() const;

 private:
  uint64_t id_ = 0;
};

// Takes the namespace: only its owner defines operators in it.
DISTWRAP_EXPORT absl::StatusOr<Registration> own_namespace(
    absl::string_view name, Site site = Site::current());
// Defines "ns::name.overload(...) -> ...". Errors: kSchemaParse, kDuplicate,
// kSchemaMismatch with a kernel that is there.
DISTWRAP_EXPORT absl::StatusOr<Registration> define(
    absl::string_view schema, std::initializer_list<Tag> tags = {},
    Site site = Site::current());
// Errors: kDuplicate, kSchemaMismatch, kSignatureMismatch, kArgument.
DISTWRAP_EXPORT absl::StatusOr<Registration> implement(
    absl::string_view op, Target target, Kernel kernel,
    Existing existing = Existing::kRefuse);
// The kernel of a layer for operators that have none there.
DISTWRAP_EXPORT absl::StatusOr<Registration> fallback(Key key, Kernel kernel);

// The allocator of a device type. Errors: kDuplicate, kArgument for a device
// that has none of its own.
using Allocator = absl::StatusOr<Storage> (*)(int64_t bytes, Device device);
DISTWRAP_EXPORT absl::StatusOr<Registration> register_allocator(
    int32_t device_type, Allocator allocator);

// Registers on behalf of one block, and keeps the first error.
class Registrar;

// A namespace of operators within a block.
class DISTWRAP_EXPORT Namespace {
 public:
  Namespace(Registrar* registrar, std::string name)
      : registrar_(registrar), name_(std::move(name)) {}
  // Names are without the namespace.
  void def(absl::string_view schema, std::initializer_list<Tag> tags = {},
           Site site = Site::current());
  void impl(absl::string_view op, Target target, Kernel kernel,
            Existing existing = Existing::kRefuse);
  // The advice of errors that say that the operator has no kernel.
  void hint(absl::string_view op, absl::string_view text);

 private:
  Registrar* registrar_;
  std::string name_;
};

class DISTWRAP_EXPORT Registrar {
 public:
  Namespace own(absl::string_view name, Site site = Site::current());
  // A namespace of somebody else, to define more operators in it.
  Namespace extend(absl::string_view name);
  void impl(absl::string_view op, Target target, Kernel kernel,
            Existing existing = Existing::kRefuse);
  void fallback(Key key, Kernel kernel);
  void allocator(int32_t device_type, Allocator allocator);

  void keep(absl::StatusOr<Registration> made);
  absl::Status status;
  std::vector<Registration> kept;
};

// A library of operators that this process has loaded.
struct LibraryInfo {
  std::string path;
  // A line for each registration that is in force: "define demo::cube(Tensor x)
  // -> Tensor", "implement dw::add.Tensor Sparse/cpu", "fallback User1".
  std::vector<std::string> registered;
};

// Loads a library of operators: a path, or the name of one that came with
// distwrap, such as "cpu". Loading it again does nothing.
// The note of the file is read first: nothing runs of a library that was built
// for another core, compiler ABI or sanitizer.
// Errors: kPluginNotFound, kPluginRefused, those of its blocks.
DISTWRAP_EXPORT absl::Status load_library(absl::string_view path);
// Undoes what the library has registered, waits until no call and no object
// uses its code, and unmaps it.
// Errors: kLibraryBusy at the deadline, or inside an operator; registrations
// stay removed then, the code stays mapped, and unloading may be tried again.
DISTWRAP_EXPORT absl::Status unload_library(absl::string_view path,
                                            Deadline deadline);
// All libraries with blocks, linked-in ones included.
DISTWRAP_EXPORT std::vector<LibraryInfo> libraries();
// The first error of the blocks of libraries that were linked in.
DISTWRAP_EXPORT absl::Status registry_status();

// Whether the definition of the operator has the tag.
DISTWRAP_EXPORT bool has_tag(const OpHandle& op, Tag tag);
// All operators that are defined, by name.
DISTWRAP_EXPORT std::vector<OpHandle> operators();
// Operators that have kernels and no definition, with the kernels' sites.
DISTWRAP_EXPORT std::vector<std::string> dangling_implementations();
// Compares every table with what the registrations say; kKernelFailed where
// they differ. For tests.
DISTWRAP_EXPORT absl::Status check_invariants();

// Hears of operators: of all that are defined, at once and later, and of each
// removal before the operator's table is cleared.
struct Listener {
  void (*defined)(void* context, const OpHandle& op) = nullptr;
  void (*removed)(void* context, const OpHandle& op) = nullptr;
  void* context = nullptr;
};
DISTWRAP_EXPORT Registration listen(const Listener& listener);

// Hears of the calls of an operator, not of their way through the layers.
// Functions run in the calling thread, and may call operators.
struct Observer {
  // `arguments` is nullptr unless `values` is set, as are `results`, which are
  // nullptr after an error, too.
  void (*begin)(void* context, const OpHandle& op, KeySet set,
                const Stack* arguments) = nullptr;
  void (*end)(void* context, const OpHandle& op, const absl::Status& status,
              const Stack* results) = nullptr;
  void* context = nullptr;
  // Whether the functions look at values; it costs a call its boxing.
  bool values = false;
};
// Observes one operator, or all of them for an empty name. Operators that
// nobody observes pay nothing.
DISTWRAP_EXPORT absl::StatusOr<Registration> observe(absl::string_view op,
                                                     const Observer& observer);

// A block tells this about itself before it runs.
struct BlockInfo {
  uint32_t size;
  uint32_t version;    // DW_BLOCK_VERSION
  uint32_t sanitizer;  // DW_SANITIZER_<KIND>
  uint32_t cxx_abi;    // __GXX_ABI_VERSION
  void (*run)(Registrar& registrar);
};
// Runs a block for as long as the object lives. Made by DW_OPERATORS.
class DISTWRAP_EXPORT OperatorBlock {
 public:
  explicit OperatorBlock(const BlockInfo& info);
  ~OperatorBlock();
  OperatorBlock(const OperatorBlock&) = delete;
  OperatorBlock& operator=(const OperatorBlock&) = delete;

 private:
  void* library_ = nullptr;
};

}  // namespace distwrap::dispatch

// The version of what blocks and the core share: layouts of structs, and
// functions that headers call.
#define DW_BLOCK_VERSION 2

// The ELF note of a file with a block, which load_library() reads before it
// maps the file: owner "DWO", type 1, then version, sanitizer, C++ ABI, 0.
#define DW_BLOCK_NOTE_OF(version, sanitizer, cxx_abi) \
  __asm__(".pushsection .note.distwrap.ops,\"a\",@note\n"                    \
          ".balign 4\n"                                                      \
          ".long 4, 16, 1\n"                                                 \
          ".asciz \"DWO\"\n"                                                 \
          ".long " DW_NOTE_STRING(version) ", " DW_NOTE_STRING(sanitizer)    \
          ", " DW_NOTE_STRING(cxx_abi) ", 0\n"                               \
          ".popsection\n")

#define DW_OPERATORS(registrar)                                           \
  DW_BLOCK_NOTE_OF(DW_BLOCK_VERSION, DW_SANITIZER, __GXX_ABI_VERSION);    \
  static void dw_operators_of_this_file(                                  \
      ::distwrap::dispatch::Registrar& registrar);                        \
  static const ::distwrap::dispatch::OperatorBlock dw_block_of_this_file( \
      {sizeof(::distwrap::dispatch::BlockInfo), DW_BLOCK_VERSION,         \
       DW_SANITIZER, __GXX_ABI_VERSION, &dw_operators_of_this_file});     \
  static void dw_operators_of_this_file(                                  \
      [[maybe_unused]] ::distwrap::dispatch::Registrar& registrar)

#endif  // DISTWRAP_REGISTRATION_H_
