#include "chaos/ledger.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <sys/mman.h>
#include <unistd.h>

namespace distwrap::chaos {
namespace {

template <size_t n>
void put(char (&to)[n], absl::string_view text) {
  const size_t length = std::min(text.size(), n - 1);
  text.copy(to, length);
  to[length] = '\0';
}

}  // namespace

void tell(RankPage& page, size_t group, const absl::Status& status, int call,
          int64_t heard_ns) {
  News& news = page.news[group];
  if (news.is_there()) return;
  const ErrorInfo info = error_info(status).value_or(ErrorInfo{});
  news.reason = info.reason;
  news.call = call;
  for (const int rank : info.ranks)
    if (rank >= 0 && rank < 64) news.culprits |= uint64_t{1} << rank;
  put(news.text, absl::StrCat(reason_name(info.reason), " ", status.message()));
  put(news.expected, info.expected);
  put(news.actual, info.actual);
  news.heard_ns.store(heard_ns);
}

void complain(RankPage& page, absl::string_view wrong) {
  if (page.wrong[0] != '\0' || page.is_wrong.exchange(true)) return;
  put(page.wrong, wrong);
}

LedgerMemory::LedgerMemory() : fd_(memfd_create("chaos", 0)) {
  if (fd_ < 0 || ftruncate(fd_, sizeof(Ledger)) != 0) {
    std::perror("memfd_create");
    std::exit(2);
  }
  map();
}

LedgerMemory::LedgerMemory(int fd) : fd_(fd) { map(); }

void LedgerMemory::map() {
  void* const memory =
      mmap(nullptr, sizeof(Ledger), PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (memory == MAP_FAILED) {
    std::perror("mmap");
    std::exit(2);
  }
  ledger_ = static_cast<Ledger*>(memory);
}

LedgerMemory::~LedgerMemory() {
  munmap(ledger_, sizeof(Ledger));
  close(fd_);
}

}  // namespace distwrap::chaos
