#include "base/child_closes.h"

#include "base/descriptor.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace distwrap::base {
namespace {

// The exit code of a child that runs the body.
template <class Body>
int in_a_child(const Body& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

bool is_same_file(int a, int b) {
  struct stat one = {}, other = {};
  return fstat(a, &one) == 0 && fstat(b, &other) == 0 &&
         one.st_ino == other.st_ino && one.st_dev == other.st_dev;
}

bool is_nothing(int descriptor) {
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const bool same = is_same_file(descriptor, nothing);
  close(nothing);
  return same;
}

// The far end of a pipe shows which process has it open.
TEST(ChildCloses, PeersSeeTheParentsEndThoughAChildLives) {
  int ends[2], go[2], there[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(go, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(there, O_CLOEXEC), 0);
  pid_t child;
  {
    const Descriptor writer(ends[1]);
    child = fork();
    if (child == 0) {
      char c;
      close(go[1]);
      if (write(there[1], "x", 1) != 1) _exit(1);
      _exit(read(go[0], &c, 1) == 0 ? 0 : 1);
    }
    ASSERT_GT(write(writer.get(), "x", 1), 0);
  }
  char text[2];
  EXPECT_EQ(read(there[0], text, 1), 1);  // the child's fork has returned
  EXPECT_EQ(read(ends[0], text, 1), 1);
  ASSERT_EQ(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
  EXPECT_EQ(read(ends[0], text, 1), 0) << "the child has the other end";
  close(ends[0]);
  close(go[1]);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  for (const int end : {go[0], there[0], there[1]}) close(end);
}

TEST(ChildCloses, NumbersStayTakenSoThatAnOwnersEndHarmsNothing) {
  Descriptor ours(memfd_create("ours", MFD_CLOEXEC));
  ASSERT_TRUE(ours.is_open());
  const int number = ours.get();
  EXPECT_EQ(in_a_child([&] {
              if (!is_nothing(number)) return 1;
              const int opened = memfd_create("opened", MFD_CLOEXEC);
              if (opened == number) return 2;
              ours = Descriptor();
              if (fcntl(opened, F_GETFD) < 0) return 3;
              return fcntl(number, F_GETFD) < 0 ? 0 : 4;
            }),
            0);
  EXPECT_FALSE(is_nothing(number));
}

// A later owner of the descriptor's number keeps it.
TEST(ChildCloses, WhatWasClosedIsForgotten) {
  const int number = Descriptor(memfd_create("ours", MFD_CLOEXEC)).get();
  const int theirs = memfd_create("theirs", MFD_CLOEXEC);
  ASSERT_EQ(theirs, number);
  EXPECT_EQ(in_a_child([&] { return is_nothing(theirs) ? 1 : 0; }), 0);
  close(theirs);
}

// A child's own descriptors are closed in the child's child.
TEST(ChildCloses, AChildsOwnAreItsOwn) {
  EXPECT_EQ(in_a_child([] {
              const Descriptor own(memfd_create("own", MFD_CLOEXEC));
              if (is_nothing(own.get())) return 1;
              return in_a_child([&] { return is_nothing(own.get()) ? 0 : 1; });
            }),
            0);
}

TEST(ChildCloses, InAFullTableToo) {
  const Descriptor a(memfd_create("a", MFD_CLOEXEC)),
      b(memfd_create("b", MFD_CLOEXEC));
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low = {static_cast<rlim_t>(b.get()) + 1, before.rlim_max};
  const int closed[] = {a.get(), b.get()};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  const pid_t child = fork();
  if (child == 0) {
    setrlimit(RLIMIT_NOFILE, &before);
    _exit(is_nothing(closed[0]) && is_nothing(closed[1]) ? 0 : 1);
  }
  setrlimit(RLIMIT_NOFILE, &before);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(ChildCloses, MemoryIsNotSharedAndMayBeTouched) {
  constexpr size_t kBytes = 8192;
  const Descriptor memory(memfd_create("memory", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(memory.get(), kBytes), 0);
  auto* const words = static_cast<volatile int*>(mmap(
      nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0));
  void* const pages = const_cast<int*>(words);
  ASSERT_NE(pages, MAP_FAILED);
  words[0] = 7;
  ChildCloses::add(pages, kBytes);
  EXPECT_EQ(in_a_child([&] {
              const int seen = words[0];
              words[0] = 8;
              return seen;
            }),
            0);
  EXPECT_EQ(words[0], 7);
  ChildCloses::remove(pages);
  EXPECT_EQ(in_a_child([&] { return static_cast<int>(words[0]); }), 7);
  munmap(pages, kBytes);
}

}  // namespace
}  // namespace distwrap::base
