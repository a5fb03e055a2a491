// Views: other sizes and strides of the same memory, for any device.
#include "dispatch/fail.h"
#include "dispatch/geometry.h"
#include "distwrap/arguments.h"
#include "distwrap/outputs.h"
#include "distwrap/registration.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace distwrap::dispatch {
namespace {

using outputs::check_dim;

absl::StatusOr<Tensor> with(const Tensor& self, const Dims& sizes,
                            const Dims& strides, int64_t offset) {
  // A view without elements may lie behind the end of its memory.
  const bool empty = std::count(sizes.begin(), sizes.end(), 0) > 0;
  return Tensor::of_storage(self.storage(), self.dtype(), sizes, strides,
                            empty ? self.storage_offset() : offset);
}

Dims sizes_of(const Tensor& self) {
  return Dims(self.sizes().begin(), self.sizes().end());
}
Dims strides_of(const Tensor& self) {
  return Dims(self.strides().begin(), self.strides().end());
}

absl::StatusOr<Tensor> as_strided(const Tensor& self, Ints size, Ints stride,
                                  int64_t offset) {
  return Tensor::of_storage(self.storage(), self.dtype(), size, stride, offset);
}

absl::StatusOr<Tensor> view(const Tensor& self, Ints size) {
  Dims wanted(size.begin(), size.end());
  int64_t known = 1, open = -1;
  for (size_t d = 0; d < wanted.size(); ++d) {
    if (wanted[d] == -1 && open < 0) {
      open = static_cast<int64_t>(d);
    } else if (wanted[d] < 0 ||
               __builtin_mul_overflow(known, wanted[d], &known)) {
      return bad_argument("dw::view", "impossible sizes",
                          "sizes of 0 or more, with at most one -1",
                          dims_text(size));
    }
  }
  if (open >= 0 && known > 0) {
    wanted[static_cast<size_t>(open)] = self.count() / known;
    known *= wanted[static_cast<size_t>(open)];
  }
  if (known != self.count() ||
      (open >= 0 && known == 0 && wanted[static_cast<size_t>(open)] < 0)) {
    return bad_argument("dw::view", "another number of elements",
                        absl::StrCat("sizes with ", self.count(), " elements"),
                        dims_text(size));
  }
  const std::optional<Dims> strides =
      view_strides(self.sizes(), self.strides(), wanted);
  if (!strides.has_value()) {
    return bad_argument("dw::view",
                        "the elements do not lie so that these sizes are a "
                        "view; reshape() copies them",
                        absl::StrCat("a view of ", self.text()),
                        dims_text(size));
  }
  return with(self, wanted, *strides, self.storage_offset());
}

absl::StatusOr<Tensor> permute(const Tensor& self, Ints dims) {
  Dims sizes, strides;
  uint64_t seen = 0;
  for (const int64_t dim : dims) {
    absl::StatusOr<int> d = check_dim("dw::permute", dim, self.dims());
    if (!d.ok()) return std::move(d).status();
    if (self.dims() == 0) break;
    seen |= uint64_t{1} << *d;
    sizes.push_back(self.size(*d));
    strides.push_back(self.stride(*d));
  }
  if (dims.size() != static_cast<size_t>(self.dims()) ||
      std::popcount(seen) != self.dims()) {
    return bad_argument(
        "dw::permute", "not an order of the dimensions",
        absl::StrCat("each of ", self.dims(), " dimensions once"),
        dims_text(dims));
  }
  return with(self, sizes, strides, self.storage_offset());
}

absl::StatusOr<Tensor> expand(const Tensor& self, Ints size) {
  const auto fail = [&] {
    return bad_argument(
        "dw::expand",
        "only extents of 1 can be repeated, and new "
        "dimensions come first",
        absl::StrCat("sizes that end like ", dims_text(self.sizes()),
                     ", or with -1 for an extent to keep"),
        dims_text(size));
  };
  if (size.size() < static_cast<size_t>(self.dims())) return fail();
  const size_t added = size.size() - static_cast<size_t>(self.dims());
  Dims sizes(size.begin(), size.end()), strides(size.size());
  for (size_t d = 0; d < size.size(); ++d) {
    if (d < added) {
      if (size[d] < 0) return fail();
      continue;
    }
    const int from = static_cast<int>(d - added);
    if (size[d] == -1) sizes[d] = self.size(from);
    if (sizes[d] == self.size(from)) {
      strides[d] = self.stride(from);
    } else if (self.size(from) != 1 || sizes[d] < 0) {
      return fail();
    }
  }
  return with(self, sizes, strides, self.storage_offset());
}

absl::StatusOr<Tensor> squeeze(const Tensor& self, int64_t dim) {
  absl::StatusOr<int> d = check_dim("dw::squeeze", dim, self.dims());
  if (!d.ok()) return std::move(d).status();
  Dims sizes = sizes_of(self), strides = strides_of(self);
  if (self.dims() > 0 && self.size(*d) == 1) {
    sizes.erase(sizes.begin() + *d);
    strides.erase(strides.begin() + *d);
  }
  return with(self, sizes, strides, self.storage_offset());
}

absl::StatusOr<Tensor> unsqueeze(const Tensor& self, int64_t dim) {
  absl::StatusOr<int> d = check_dim("dw::unsqueeze", dim, self.dims() + 1);
  if (!d.ok()) return std::move(d).status();
  Dims sizes = sizes_of(self), strides = strides_of(self);
  const int64_t stride = *d < self.dims() ? self.size(*d) * self.stride(*d) : 1;
  sizes.insert(sizes.begin() + *d, 1);
  strides.insert(strides.begin() + *d, stride);
  return with(self, sizes, strides, self.storage_offset());
}

absl::Status no_dims(absl::string_view op) {
  return bad_argument(op, "the tensor has no dimensions",
                      "one dimension or more", "a tensor of one number");
}

absl::StatusOr<Tensor> select(const Tensor& self, int64_t dim, int64_t index) {
  absl::StatusOr<int> d = check_dim("dw::select", dim, self.dims());
  if (!d.ok()) return std::move(d).status();
  if (self.dims() == 0) return no_dims("dw::select");
  const int64_t extent = self.size(*d);
  if (index < -extent || index >= extent) {
    return bad_argument(
        "dw::select", absl::StrCat("index ", index, " is out of range"),
        absl::StrCat(-extent, " to ", extent - 1), absl::StrCat(index));
  }
  if (index < 0) index += extent;
  Dims sizes = sizes_of(self), strides = strides_of(self);
  sizes.erase(sizes.begin() + *d);
  strides.erase(strides.begin() + *d);
  return with(self, sizes, strides,
              self.storage_offset() + index * self.stride(*d));
}

absl::StatusOr<Tensor> slice(const Tensor& self, int64_t dim, int64_t start,
                             int64_t end, int64_t step) {
  absl::StatusOr<int> d = check_dim("dw::slice", dim, self.dims());
  if (!d.ok()) return std::move(d).status();
  if (self.dims() == 0) return no_dims("dw::slice");
  if (step < 1) {
    return bad_argument("dw::slice", "the step is not positive", "1 or more",
                        absl::StrCat(step));
  }
  const int64_t extent = self.size(*d);
  // As in Python: negative bounds count from the end, others are cut off.
  const auto bound = [extent](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + extent : at, 0, extent);
  };
  start = bound(start);
  end = std::max(bound(end), start);
  Dims sizes = sizes_of(self), strides = strides_of(self);
  const auto i = static_cast<size_t>(*d);
  sizes[i] = (end - start) / step + ((end - start) % step != 0 ? 1 : 0);
  const int64_t offset =
      self.storage_offset() + (sizes[i] > 0 ? start * strides[i] : 0);
  // A step beyond the end would overflow the stride of one element.
  if (sizes[i] > 1) strides[i] *= step;
  return with(self, sizes, strides, offset);
}

absl::StatusOr<std::vector<Tensor>> split(const Tensor& self, Ints sizes,
                                          int64_t dim) {
  absl::StatusOr<int> d = check_dim("dw::split", dim, self.dims());
  if (!d.ok()) return std::move(d).status();
  if (self.dims() == 0) return no_dims("dw::split");
  int64_t sum = 0;
  bool possible = true;
  for (const int64_t size : sizes) {
    possible =
        possible && size >= 0 && !__builtin_add_overflow(sum, size, &sum);
  }
  if (!possible || sum != self.size(*d)) {
    return bad_argument(
        "dw::split", "the sizes do not add up",
        absl::StrCat("sizes of 0 or more with sum ", self.size(*d)),
        dims_text(sizes));
  }
  std::vector<Tensor> parts;
  int64_t at = 0;
  for (const int64_t size : sizes) {
    absl::StatusOr<Tensor> part = slice(self, *d, at, at + size, 1);
    if (!part.ok()) return std::move(part).status();
    parts.push_back(*std::move(part));
    at += size;
  }
  return parts;
}

absl::StatusOr<Tensor> detach(const Tensor& self) {
  return with(self, sizes_of(self), strides_of(self), self.storage_offset());
}

}  // namespace

DW_OPERATORS(lib) {
  lib.impl("dw::as_strided", kCompositeExplicit, kernel<&as_strided>());
  lib.impl("dw::view", kCompositeExplicit, kernel<&view>());
  lib.impl("dw::permute", kCompositeExplicit, kernel<&permute>());
  lib.impl("dw::expand", kCompositeExplicit, kernel<&expand>());
  lib.impl("dw::squeeze", kCompositeExplicit, kernel<&squeeze>());
  lib.impl("dw::unsqueeze", kCompositeExplicit, kernel<&unsqueeze>());
  lib.impl("dw::select", kCompositeExplicit, kernel<&select>());
  lib.impl("dw::slice", kCompositeExplicit, kernel<&slice>());
  lib.impl("dw::split", kCompositeExplicit, kernel<&split>());
  lib.impl("dw::detach", kCompositeExplicit, kernel<&detach>());
  // The result is a tensor of its own, and no view: it shares the memory and
  // the number of writes, but no history.
  lib.impl("dw::detach", kViewTracking, fallthrough());
}

}  // namespace distwrap::dispatch
