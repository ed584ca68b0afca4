#include "session/sandbox_link.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <string_view>

namespace hutch {
namespace {

UniqueFd file_with(std::string_view text) {
  char name[] = "/tmp/hutch-link-XXXXXX";
  UniqueFd file{::mkstemp(name)};
  ::unlink(name);
  EXPECT_EQ(::write(file.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  return file;
}

// As the keeper sends them: the workspace, three streams, the socket.
std::vector<UniqueFd> started_fds() {
  std::vector<UniqueFd> fds;
  fds.push_back(file_with(""));
  int ends[2];
  for (int stream = 0; stream < 3; ++stream) {
    EXPECT_EQ(::pipe(ends), 0);
    fds.emplace_back(ends[0]);
    ::close(ends[1]);
  }
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  fds.emplace_back(ends[0]);
  ::close(ends[1]);
  return fds;
}

TEST(SandboxLink, ProcessorTimeIsReadWhereTheKernelTellsNothingElse) {
  net::io_context context;
  SandboxLink link(context.get_executor());
  auto fds = started_fds();
  fds.push_back(file_with("usage_usec 1500\nuser_usec 1000\n"));
  link.adopt(StartedReply{}, std::move(fds));
  EXPECT_EQ(link.cgroup.read_cpu_us().value_or(0), 1500U);
  EXPECT_FALSE(link.cgroup.read_peak_memory());
  EXPECT_FALSE(link.cgroup);
}

TEST(SandboxLink, AWholeHandleIsTaken) {
  net::io_context context;
  SandboxLink link(context.get_executor());
  auto fds = started_fds();
  for (const char* text : {"2000000\n", "900\n", "0\n"}) fds.push_back(file_with(text));
  link.adopt(StartedReply{.cgroup_is_v1 = true, .stands_back = true, .threads = "box/pids.current"}, std::move(fds));
  ASSERT_TRUE(link.cgroup);
  const auto reading = link.cgroup.read();
  ASSERT_TRUE(reading) << reading.error().message;
  EXPECT_EQ(reading->cpu_us, 2000U);
  EXPECT_EQ(reading->peak_memory, 900U);
  EXPECT_EQ(link.cgroup.threads, "box/pids.current");
  EXPECT_TRUE(link.cgroup.stands_back);
}

TEST(SandboxLink, WithoutAControlGroupThereIsNothingToRead) {
  net::io_context context;
  SandboxLink link(context.get_executor());
  link.adopt(StartedReply{}, started_fds());
  EXPECT_FALSE(link.cgroup);
  EXPECT_FALSE(link.cgroup.read_cpu_us());
}

}  // namespace
}  // namespace hutch
