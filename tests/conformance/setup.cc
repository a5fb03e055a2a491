#include "checks.h"

#include <cstring>

namespace distwrap::conformance {
namespace {

struct LongInfo {
  dw_setup_info info;
  uint64_t tail;
};

// Runs the first `rounds` of a setup on all ranks with blobs that `spoil` has
// changed, then every rank ends the setup. True on ranks where it had not
// failed.
class Rounds {
 public:
  Rounds(Member& member, uint64_t uid) : member_(member) {
    const dw_setup_info info = setup_info(member, uid);
    dw_error error = {};
    code_ =
        member.api.setup_begin(member.backend, &info, &setup_, &out_, &error);
    if (code_ != DW_OK) member.find("setup_begin: " + error_text(code_, error));
  }
  ~Rounds() {
    if (code_ == DW_OK) member_.api.setup_cancel(setup_);
    if (result_.comm != nullptr) {
      const dw_error why = {DW_ABORTED, DW_REASON_ABORTED, -1, 0, 0, ""};
      member_.api.comm_abort(result_.comm, &why);
      member_.api.comm_destroy(result_.comm, 0, nullptr);
    }
  }

  std::vector<std::string> swap() {
    return member_.meeting.swap(
        member_.rank,
        code_ == DW_OK
            ? std::string(static_cast<const char*>(out_.data), out_.size)
            : std::string());
  }

  int32_t step(const std::vector<std::string>& texts) {
    if (code_ != DW_OK) return code_;
    std::vector<dw_blob> blobs;
    for (const std::string& text : texts)
      blobs.push_back({text.data(), text.size(), nullptr, 0});
    out_ = {};
    code_ = member_.api.setup_step(setup_, blobs.data(), blobs.size(), &out_,
                                   &result_, nullptr);
    return code_;
  }

  int32_t code() const { return code_; }

 private:
  Member& member_;
  int32_t code_ = DW_OK;
  dw_setup* setup_ = nullptr;
  dw_blob out_ = {};
  dw_setup_result result_ = {};
};

void refuse_infos(Member& member) {
  dw_setup* setup = nullptr;
  dw_blob out = {};
  const auto refused = [&](const char* what, const dw_setup_info& info,
                           int32_t want) {
    dw_error error = {};
    const int32_t code =
        member.api.setup_begin(member.backend, &info, &setup, &out, &error);
    if (code == DW_OK) member.api.setup_cancel(setup);
    if (want == DW_UNKNOWN ? code <= DW_OK : code != want)
      member.find(std::string("setup_begin with ") + what + ": " +
                  error_text(code, error));
    else if (error.code != code || error.text[0] == '\0')
      member.find(std::string("setup_begin with ") + what + ": no detail");
  };
  const dw_setup_info good = setup_info(member, 1);
  dw_setup_info info = good;
  info.struct_size -= 8;
  refused("a short info", info, DW_INVALID_ARGUMENT);
  LongInfo longer = {good, 1};
  longer.info.struct_size = sizeof longer;
  refused("an unknown tail", longer.info, DW_INCOMPATIBLE);
  info = good;
  info.flags |= 1u << 14;
  refused("an unknown flag", info, DW_UNIMPLEMENTED);
  info = good;
  info.rank = info.size;
  refused("a rank out of range", info, DW_UNKNOWN);
  info = good;
  info.size = 0;
  refused("no ranks", info, DW_UNKNOWN);
  const dw_hint hint = {{"x-nobody", 8}, {"1", 1}};
  info = good;
  info.hints = &hint;
  info.n_hints = 1;
  refused("an unknown hint", info, DW_INVALID_ARGUMENT);
}

using Spoil = void (*)(std::vector<std::string>&, size_t);
struct Spoiler {
  const char* name;
  Spoil spoil;
};

constexpr Spoiler kSpoilers[] = {
    {"one missing",
     [](std::vector<std::string>& all, size_t) { all.pop_back(); }},
    {"one too many",
     [](std::vector<std::string>& all, size_t) { all.push_back(all[0]); }},
    {"one empty",
     [](std::vector<std::string>& all, size_t other) { all[other].clear(); }},
    {"one cut short",
     [](std::vector<std::string>& all, size_t other) {
       all[other].resize(all[other].size() / 2);
     }},
    {"one too long",
     [](std::vector<std::string>& all, size_t other) { all[other] += '\0'; }},
    {"one of noise",
     [](std::vector<std::string>& all, size_t other) {
       for (size_t i = 0; i < all[other].size(); ++i)
         all[other][i] = static_cast<char>(i * 151 + 77);
     }},
    {"two swapped", [](std::vector<std::string>& all,
                       size_t other) { std::swap(all[0], all[other]); }},
};

}  // namespace

void check_open(const dw_backend_api& api, int size, const Limits& limits,
                Findings& findings) {
  const auto refused = [&](const char* what, const dw_open_info& info,
                           int32_t want) {
    dw_backend* backend = nullptr;
    dw_error error = {};
    const int32_t code = api.open(&host_table(), &info, &backend, &error);
    if (code == DW_OK) api.close(backend);
    if (code != want)
      findings.add(std::string("open with ") + what + ": " +
                   error_text(code, error));
  };
  dw_open_info info = open_info();
  info.struct_size -= 8;
  refused("a short info", info, DW_INVALID_ARGUMENT);
  info = open_info();
  info.device_type = 77;
  refused("an unknown device type", info, DW_UNIMPLEMENTED);
  const dw_hint hint = {{"x-nobody", 8}, {"1", 1}};
  info = open_info();
  info.hints = &hint;
  info.n_hints = 1;
  refused("an unknown hint", info, DW_INVALID_ARGUMENT);
  run_team(api, size, limits, findings, refuse_infos);
}

void check_bad_blobs(const dw_backend_api& api, int size, const Limits& limits,
                     Findings& findings) {
  run_team(api, size, limits, findings, [](Member& member) {
    uint64_t uid = UINT64_C(1) << 32;
    for (const Spoiler& spoiler : kSpoilers) {
      Rounds rounds(member, ++uid);
      std::vector<std::string> texts = rounds.swap();
      const size_t other = texts.size() - 1;
      const bool same = [&] {
        std::vector<std::string> spoilt = texts;
        spoiler.spoil(spoilt, other);
        const bool nothing_changed = spoilt == texts;
        texts = spoilt;
        return nothing_changed;
      }();
      // Only the first rank gets faulty blobs; the others stop.
      if (member.rank == 0 && !same && rounds.step(texts) <= DW_OK)
        member.find(std::string("blobs with ") + spoiler.name +
                    " were accepted");
      member.meeting.meet();
    }
    // Blobs of another group, of the same form.
    Rounds rounds(member, ++uid);
    const std::vector<std::string> here = rounds.swap();
    if (member.size == 1 || here[0].empty()) return;
    Rounds stranger(member, ++uid);
    std::vector<std::string> mixed = stranger.swap();
    mixed[static_cast<size_t>(member.rank)] =
        here[static_cast<size_t>(member.rank)];
    if (member.rank == 0 && rounds.step(mixed) <= DW_OK)
      member.find("blobs of another group were accepted");
    member.meeting.meet();
  });
}

void check_cancelled_setups(const dw_backend_api& api, int size,
                            const Limits& limits, Findings& findings) {
  run_team(api, size, limits, findings, [](Member& member) {
    uint64_t uid = UINT64_C(1) << 33;
    for (int keep = 0;; ++keep) {
      Rounds rounds(member, ++uid);
      for (int round = 0; round < keep && rounds.code() == DW_OK; ++round)
        rounds.step(rounds.swap());
      if (rounds.code() > DW_OK) member.find("a good setup failed");
      member.meeting.meet();
      if (rounds.code() != DW_OK) return;
    }
  });
}

}  // namespace distwrap::conformance
