// A module over NCCL, as Python loads them: visible to nobody else.
extern "C" {
int ncclSend(void*, void*, long, int, int, void*, void*);

__attribute__((visibility("default"))) int call_nccl() {
  const int result = ncclSend(nullptr, nullptr, 1, 2, 3, nullptr, nullptr);
  return result + 0;
}
}
