#include "store/loop_stream.h"

#include <memory>
#include <utility>

namespace distwrap::store {
namespace {

struct Write {
  uv_write_t request = {};
  std::string bytes;
  void (*on_failed)(uv_stream_t*) = nullptr;
};

}  // namespace

int descriptor_of(const uv_stream_t& stream) {
  uv_os_fd_t descriptor = -1;
  const auto* const handle = reinterpret_cast<const uv_handle_t*>(&stream);
  return uv_fileno(handle, &descriptor) == 0 ? descriptor : -1;
}

bool write_to(uv_stream_t* stream, std::string bytes,
              void (*on_failed)(uv_stream_t*)) {
  auto write = std::make_unique<Write>();
  write->bytes = std::move(bytes);
  write->on_failed = on_failed;
  write->request.data = write.get();
  uv_buf_t buffer = uv_buf_init(write->bytes.data(),
                                static_cast<unsigned>(write->bytes.size()));
  const auto written = [](uv_write_t* request, int status) {
    const std::unique_ptr<Write> done(static_cast<Write*>(request->data));
    if (status < 0 && status != UV_ECANCELED) done->on_failed(request->handle);
  };
  if (uv_write(&write->request, stream, &buffer, 1, written) != 0) return false;
  (void)write.release();  // `written` frees it
  return true;
}

}  // namespace distwrap::store
