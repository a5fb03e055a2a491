#include "hosts/hosts.h"

#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sched.h>
#include <unistd.h>

namespace distwrap::hosts_test {
namespace {

constexpr char kPrefix[] = "dwhosts-";

int run(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str());
}

void must_run(const std::string& command) {
  if (std::system(command.c_str()) == 0) return;
  std::fprintf(stderr, "failed: %s\n", command.c_str());
  std::abort();
}

// Gives this thread another network.
void enter(int space) {
  if (setns(space, CLONE_NEWNET) == 0) return;
  std::perror("setns");
  std::abort();
}

// Removes the namespaces of programs that were killed.
void remove_old() {
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator("/run/netns", error)) {
    const std::string name = entry.path().filename();
    if (name.rfind(kPrefix, 0) != 0) continue;
    const std::string pid = name.substr(sizeof kPrefix - 1);
    const std::string owner = "/proc/" + pid.substr(0, pid.find('-'));
    if (!std::filesystem::exists(owner)) run("ip netns del " + name);
  }
}

}  // namespace

std::string Hosts::why_not() {
  if (geteuid() != 0) return "no network namespaces without root";
  if (run("ip -V") != 0) return "no network namespaces: ip is not installed";
  const std::string name = kPrefix + std::to_string(getpid()) + "-probe";
  const bool can = run("ip netns add " + name) == 0 &&
                   run("ip netns exec " + name +
                       " ip link add name probe type bridge") == 0 &&
                   run("ip netns exec " + name + " unshare -u true") == 0;
  run("ip netns del " + name);
  return can ? "" : "no network namespaces are permitted";
}

Hosts::Hosts(int number, Wires wires)
    : prefix_(kPrefix + std::to_string(getpid()) + "-"), number_(number) {
  remove_old();
  const std::string middle = space("bridge");
  if (wires == Wires::kCable) {
    cable_ = std::make_unique<Cable>();
  } else {
    must_run("ip netns add " + middle);
    must_run("ip -n " + middle + " link add name bridge type bridge");
    must_run("ip -n " + middle + " link set bridge up");
  }
  for (int host = 0; host < number_; ++host) {
    const std::string at = space(name(host)),
                      port = "port" + std::to_string(host);
    must_run("ip netns add " + at);
    if (wires == Wires::kCable) {
      const Visit visit(*this, host);
      cable_->plug_in("eth0");
    } else {
      must_run("ip -n " + middle + " link add name " + port +
               " type veth peer name eth0 netns " + at);
      must_run("ip -n " + middle + " link set " + port + " master bridge up");
    }
    must_run("ip -n " + at + " link set lo up");
    must_run("ip -n " + at + " addr add " + address(host) + "/24 dev eth0");
    must_run("ip -n " + at + " link set eth0 up");
  }
  if (cable_ != nullptr) cable_->start();
  names_ = std::filesystem::temp_directory_path() / (prefix_ + "names");
  std::ofstream names(names_);
  names << "127.0.0.1 localhost\n";
  for (int host = 0; host < number_; ++host)
    names << address(host) << " " << name(host) << "\n";
}

Hosts::~Hosts() {
  std::error_code error;
  std::filesystem::remove(names_, error);
  const bool has_bridge = cable_ == nullptr;
  cable_.reset();
  for (int host = 0; host < number_; ++host)
    run("ip netns del " + space(name(host)));
  if (has_bridge) run("ip netns del " + space("bridge"));
}

std::string Hosts::space(const std::string& what) const {
  return prefix_ + what;
}

std::string Hosts::address(int host) {
  return "10.77.0." + std::to_string(host + 1);
}

std::string Hosts::name(int host) { return "host" + std::to_string(host); }

std::unique_ptr<cli::Process> Hosts::start(int host, const Words& argv,
                                           const Variables& variables) const {
  return std::make_unique<cli::Process>(
      words(host, argv), cli::Process::Options{.env = variables});
}

Hosts::Visit::Visit(const Hosts& hosts, int host)
    : home_(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)) {
  const std::string path = "/run/netns/" + hosts.space(name(host));
  const int there = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  enter(there);
  close(there);
}

Hosts::Visit::~Visit() {
  enter(home_);
  close(home_);
}

Words Hosts::words(int host, const Words& argv) const {
  // ip gives the program a mount namespace, in which the hosts have names.
  Words all = {"/usr/bin/env",
               "ip",
               "netns",
               "exec",
               space(name(host)),
               "unshare",
               "--uts",
               "sh",
               "-c",
               "mount --bind " + names_ +
                   " /etc/hosts && hostname \"$0\" && exec \"$@\"",
               name(host)};
  all.insert(all.end(), argv.begin(), argv.end());
  return all;
}

void Hosts::write_remote_shell(const std::string& path) const {
  std::ofstream(path) << "#!/bin/sh\n"
                         "name=$1; shift\n"
                         "case $name in\n"
                         "  host*) host=${name#host} ;;\n"
                         "  *) host=$((${name##*.} - 1)) ;;\n"
                         "esac\n"
                         "exec ip netns exec "
                      << space("host")
                      << "$host unshare --uts sh -c "
                         "'mount --bind "
                      << names_
                      << " /etc/hosts && hostname host'$host'"
                         " && exec sh -c \"$*\"' sh \"$@\"\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
}

void Hosts::set_cable(int host, bool in) const {
  must_run("ip -n " + space("bridge") + " link set port" +
           std::to_string(host) + (in ? " up" : " down"));
}

}  // namespace distwrap::hosts_test
