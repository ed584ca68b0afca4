// For tests: a directory for databases, and another process that uses them.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>

#include "base/unique_fd.h"
#include "session/database.h"

namespace hutch {

// Born before this process opens a database (see database.h); does its work when it is told to.
class OtherProcess {
 public:
  // Gets what ask() was given and returns the answer. Ends without any cleaning up, as if it was killed.
  using Work = std::function<std::string(const std::string&)>;

  explicit OtherProcess(const Work& work) {
    std::array<int, 2> sockets{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets.data()) != 0) std::abort();
    socket_.reset(sockets[0]);
    const UniqueFd theirs{sockets[1]};
    pid_ = ::fork();
    if (pid_ < 0) std::abort();
    if (pid_ > 0) return;
    socket_.reset();
    std::array<char, 1024> question{};
    for (;;) {
      const ssize_t size = ::recv(theirs.get(), question.data(), question.size(), 0);
      if (size <= 0) ::_exit(0);
      const std::string answer = work(std::string(question.data(), static_cast<std::size_t>(size))) + "\n";
      if (::send(theirs.get(), answer.data(), answer.size(), 0) < 0) ::_exit(1);
    }
  }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;
  ~OtherProcess() { end(); }

  std::string ask(const std::string& question) {
    tell(question);
    return answer();
  }
  void tell(const std::string& question) {
    EXPECT_EQ(::send(socket_.get(), question.data(), question.size(), 0), static_cast<ssize_t>(question.size()));
  }
  std::string answer() {
    std::array<char, 1024> bytes{};
    const ssize_t size = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
    return size > 0 ? std::string(bytes.data(), static_cast<std::size_t>(size) - 1) : "gone";
  }
  void end() {
    socket_.reset();
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  UniqueFd socket_;
  pid_t pid_ = -1;
};

class DatabaseFixture : public testing::Test {
 protected:
  DatabaseFixture() {
    std::string pattern = testing::TempDir() + "database-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    directory_ = pattern;
    path_ = directory_ / "hutch.db";
  }
  ~DatabaseFixture() override { std::filesystem::remove_all(directory_); }

  std::filesystem::path directory_;
  std::filesystem::path path_;
};

}  // namespace hutch
