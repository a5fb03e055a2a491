// Network namespaces that stand for hosts: each has an interface of its own at
// one bridge or cable, its own loopback interface, and its own host name, which
// the others resolve. The bridge is in a namespace too, so that nothing outside
// of the test changes.
//
// Threads: one. Ownership: destruction removes the namespaces; a later test
// also removes those of a test program that was killed.
//
//   Hosts hosts(2);
//   auto node = hosts.start(0, {DISTWRAP_TOOL, "run", ...}, {{"NAME",
//   "value"}});
#ifndef DISTWRAP_TESTS_HOSTS_HOSTS_H_
#define DISTWRAP_TESTS_HOSTS_HOSTS_H_

#include "hosts/cable.h"
#include "unit/cli/process.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace distwrap::hosts_test {

using Words = std::vector<std::string>;
using Variables = std::map<std::string, std::string>;

class Hosts {
 public:
  // Why this process may not make namespaces; "" when it may.
  static std::string why_not();

  // kCable: the hosts are joined by a cable of this program instead of the
  // kernel's bridge.
  enum class Wires { kBridge, kCable };
  explicit Hosts(int number, Wires wires = Wires::kBridge);
  ~Hosts();
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  int number() const { return number_; }
  // "10.77.0.1" for host 0.
  static std::string address(int host);
  // "host0"
  static std::string name(int host);

  // Starts a program on a host.
  std::unique_ptr<cli::Process> start(int host, const Words& argv,
                                      const Variables& variables = {}) const;
  // The words that do so; the program gets the process that runs them.
  Words words(int host, const Words& argv) const;
  // Lets this thread be on a host, while the object lives.
  class Visit {
   public:
    Visit(const Hosts& hosts, int host);
    ~Visit();
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

   private:
    const int home_;
  };
  // Writes a program as mpirun asks for it: it takes a host's name or address
  // and the words of a command, which it runs there.
  void write_remote_shell(const std::string& path) const;
  // Takes a host's cable out of the bridge, or puts it back.
  void set_cable(int host, bool in) const;
  // With kCable.
  Cable& cable() const { return *cable_; }

 private:
  std::string space(const std::string& what) const;

  const std::string prefix_;
  const int number_;
  std::string names_;  // the file that stands for /etc/hosts
  std::unique_ptr<Cable> cable_;
};

}  // namespace distwrap::hosts_test

#endif  // DISTWRAP_TESTS_HOSTS_HOSTS_H_
