#include "cli/interrupts.h"

#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <mutex>
#include <thread>
#include <vector>

#include "cli/report.h"

namespace hutch {
namespace {

constexpr int kLeft = 128 + SIGINT;

bool is_ignored(int signal) {
  struct sigaction action{};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

void ask(const RemoteOptions& remote, const std::string& path) {
  auto client = reach_daemon(remote);
  const auto answer =
      client ? expect_object(client->request("POST", path)) : Result<boost::json::object>(client.error());
  if (!answer) Report().error("not interrupted: " + answer.error().message, answer.error().hint);
}

}  // namespace

struct Interrupts::State {
  RemoteOptions remote;
  std::mutex mutex;
  bool expected = false;  // something runs, or is about to
  bool wanted = false;    // its interrupt
  bool asked = false;     // for it
  std::string path;
  std::vector<std::jthread> asking;

  void hear() {
    const std::scoped_lock lock(mutex);
    if (!expected) ::_exit(kLeft);
    if (wanted) {
      Report().notice("left; what runs there goes on");
      ::_exit(kLeft);
    }
    wanted = true;
    ask_when_known();
  }

  void ask_when_known() {
    if (!wanted || asked || path.empty()) return;
    asked = true;
    asking.emplace_back([daemon = remote, what = path] { ask(daemon, what); });
  }
};

Interrupts::Interrupts(const RemoteOptions& remote) : state_(std::make_shared<State>()) {
  state_->remote = remote;
  if (is_ignored(SIGINT)) return;
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([state = state_, signals] {
    for (int number = 0; ::sigwait(&signals, &number) == 0;) state->hear();
  }).detach();  // it waits for signals as long as there is a process
}

Interrupts::~Interrupts() {
  done();
  std::vector<std::jthread> asking;
  const std::scoped_lock lock(state_->mutex);
  asking.swap(state_->asking);
}

void Interrupts::expect() {
  const std::scoped_lock lock(state_->mutex);
  state_->expected = true;
}

void Interrupts::aim(std::string path) {
  const std::scoped_lock lock(state_->mutex);
  state_->path = std::move(path);
  state_->ask_when_known();
}

void Interrupts::done() {
  const std::scoped_lock lock(state_->mutex);
  state_->expected = state_->wanted = state_->asked = false;
  state_->path.clear();
}

}  // namespace hutch
