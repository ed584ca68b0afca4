// `hutch shell`: a prompt whose every cell runs in one sandbox.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <iostream>

#include "api/engine_client.h"
#include "cli/report.h"
#include "cli/run_command.h"

namespace hutch {
namespace {

std::atomic<bool> interrupted = false;

class ShellEvents final : public ClientEvents {
 public:
  explicit ShellEvents(bool prompts) : prompts_(prompts) {}

  void on_output(const wire::OutputEvent& event) override {
    if (event.display) {
      std::cout << display_line(*event.display) << std::flush;
      return;
    }
    std::ostream& stream = event.stream == wire::Stream::out ? std::cout : std::cerr;
    stream << event.data << std::flush;
  }
  void on_file(const wire::FileEntry&, UniqueFd) override {}

  // A cell is complete when Python says so; until then lines are added to it, and an empty line ends a block.
  std::optional<wire::CellRequest> next_cell(std::optional<wire::CellStatus> last) override {
    if (last != wire::CellStatus::incomplete) cell_.clear();
    for (;;) {
      if (prompts_) std::cout << (cell_.empty() ? ">>> " : "... ") << std::flush;
      std::string line;
      if (!std::getline(std::cin, line)) {
        if (interrupted.exchange(false)) {
          std::cin.clear();
          ::clearerr(stdin);
          cell_.clear();
          if (prompts_) std::cout << "\n";
          continue;
        }
        if (cell_.empty()) {
          if (prompts_) std::cout << "\n";
          return std::nullopt;
        }
        return wire::CellRequest{.code = std::exchange(cell_, {}) + "\n\n"};  // what there is, as at the end of a file
      }
      if (cell_.empty() && line.find_first_not_of(" \t") == std::string::npos) continue;
      cell_ += line + "\n";
      return wire::CellRequest{.code = cell_};
    }
  }

 private:
  bool prompts_;
  std::string cell_;
};

}  // namespace

int shell_command(const RunOptions& options, const Config& config) {
  const Report report;
  ::signal(SIGPIPE, SIG_IGN);
  std::string notice;
  auto request = make_request(options, config, notice);
  if (!request) {
    report.error(request.error().message, request.error().hint);
    return kOwnFailure;
  }
  request->mode = options.ipython ? wire::RunMode::ipython : wire::RunMode::shell;
  // Each cell has the time limit; the whole shell has no processor budget but what was asked for.
  if (options.cpu_time.empty())
    request->limits.cpu_ms = static_cast<std::uint64_t>(config.engine.ceiling.wall.count()) * 64;
  auto client = reach_engine(options, config, request->template_name);
  if (!client) {
    report.error(client.error().message, client.error().hint);
    return kOwnFailure;
  }
  client->interrupted = &interrupted;
  struct sigaction on_interrupt{};
  on_interrupt.sa_handler = [](int) { interrupted = true; };
  ::sigaction(SIGINT, &on_interrupt, nullptr);

  const bool prompts = ::isatty(0) == 1;
  if (prompts) {
    if (!notice.empty()) report.notice(notice);
    fmt::print("Python in a sandbox (template {}). /workspace is yours; Ctrl-D leaves and deletes it.\n",
               request->template_name);
  }
  ShellEvents events(prompts);
  auto outcome = client->run({.request = std::move(*request)}, events);
  if (!outcome) {
    report.error(outcome.error().message, outcome.error().hint);
    return kOwnFailure;
  }
  if (const auto* failed = std::get_if<wire::Failed>(&*outcome)) {
    if (failed->code == "cancelled") return 0;  // the input ended before it began
    report.error(failed->message, failed->hint);
    return kOwnFailure;
  }
  const auto& record = std::get<wire::Record>(*outcome);
  if (record.status == wire::Status::cancelled) return 0;  // the end of the input
  if (record.error) report.run_error(*record.error);
  return record.exit_code;
}

}  // namespace hutch
