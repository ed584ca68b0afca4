#include "cli/agent_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <cstdio>

#include "api/agent_run.h"
#include "api/json_text.h"
#include "api/local_service.h"
#include "base/utf8.h"
#include "cli/report.h"
#include "cli/whole_file.h"

namespace hutch {
namespace {

constexpr std::size_t kLargestFile = 256U << 20;

// On standard error, so that standard output has the answer and nothing else.
class Watching final : public agent::AgentListener {
 public:
  explicit Watching(bool quiet) : quiet_(quiet), colour_(::isatty(STDERR_FILENO) == 1) {}

  void thinking(std::string_view piece) override { show("2", piece); }
  void answer_text(std::string_view piece) override { show("0", piece); }
  void retrying(const agent::RetryNotice& notice) override {
    line("33", fmt::format("asking again in {:.1f} s: {}", static_cast<double>(notice.delay.count()) / 1000.0,
                           notice.reason));
  }
  void tool_begun(const agent::ToolUse& use) override {
    line("36", use.name + ":");
    const auto* code = use.arguments.if_contains("code");
    line("0", code != nullptr && code->is_string() ? std::string(code->get_string()) : json_text(use.arguments));
  }
  void tool_ended(const agent::ToolUse&, const agent::HandOutcome& outcome) override {
    line(outcome.category.empty() ? "32" : "31", outcome.text);
  }
  void end_line() {
    if (!std::exchange(at_start_, true)) std::fputc('\n', stderr);
  }

 private:
  void line(const char* colour, const std::string& text) {
    end_line();
    show(colour, text);
    end_line();
  }

  // A model's words may hold control characters; a terminal must not obey them.
  void show(const char* colour, std::string_view text) {
    if (quiet_ || text.empty()) return;
    std::string safe;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      safe += printable(text.substr(at, end - at));
      if (end < text.size()) safe += '\n';
      at = end + 1;
    }
    if (colour_) safe = fmt::format("\033[{}m{}\033[0m", colour, safe);
    std::fputs(safe.c_str(), stderr);
    at_start_ = text.ends_with('\n');
  }

  bool quiet_;
  bool colour_;
  bool at_start_ = true;
};

Result<std::vector<AgentFile>> read_files(const std::vector<std::string>& paths) {
  std::vector<AgentFile> files;
  for (const auto& path : paths) {
    HUTCH_TRY(auto content, read_whole_file(path, kLargestFile));
    files.push_back({.path = std::filesystem::path(path).filename().string(), .content = std::move(content)});
  }
  return files;
}

Result<void> save(const std::string& path, const std::string& text) {
  return path.empty() ? Result<void>{} : write_whole_file(path, text);
}

int conclude(const AgentOptions& options, const AgentOutcome& outcome, const Report& report) {
  const auto& told = outcome.report;
  for (const auto& saved :
       {save(options.transcript, json_text(told.transcript) + "\n"), save(options.notebook, outcome.notebook)}) {
    if (saved) continue;
    report.error(saved.error().message, saved.error().hint);
    return kOwnFailure;
  }
  if (options.json) {
    std::printf("%s\n", json_text(agent::report_json(told)).c_str());
  } else {
    if (!told.answer.empty()) std::printf("%s\n", clean_utf8(told.answer).c_str());
    if (!told.error.message.empty()) report.error(printable(told.error.message), printable(told.error.hint));
    if (!options.quiet) {
      report.notice(fmt::format("{}: {} runs of code, {} of them failed, {} turns, {} tokens in, {} out, {:.1f} s",
                                agent::to_text(told.stopped_because), told.attempts, told.failed_attempts,
                                told.iterations, told.tokens.input, told.tokens.output, told.seconds));
    }
  }
  return told.answer.empty() || told.stopped_because == agent::StoppedBecause::model_error ? 1 : 0;
}

}  // namespace

int agent_command(const AgentOptions& options, const Config& config, const std::string& version) {
  const Report report;
  const auto fail = [&](const Error& error) {
    report.error(error.message, error.hint);
    return kOwnFailure;
  };
  ServeSettings settings = config.serve;
  settings.limits = config.limits;
  settings.engine = config.engine;
  settings.template_name = options.template_name.empty() ? config.template_name : options.template_name;
  settings.weaker_limits = options.weaker_limits;
  settings.log_file.clear();
  const auto override_with = [](std::string& setting, const std::string& option) {
    if (!option.empty()) setting = option;
  };
  override_with(settings.agent_model, options.model);
  override_with(settings.agent_base_url, options.base_url);
  override_with(settings.agent_api, options.api);
  override_with(settings.agent_key_file, options.key_file);
  auto model = find_model(settings);
  if (!model) return fail(model.error());
  auto files = read_files(options.files);
  if (!files) return fail(files.error());
  AgentAsked asked{.question = options.question,
                   .files = std::move(*files),
                   .limits = {.attempts = options.attempts, .iterations = options.iterations}};

  auto service = LocalService::start(std::move(settings), version);
  if (!service) return fail(service.error());
  Watching watching(options.quiet || options.json);
  agent::Cancellation cancellation;
  net::signal_set signals((*service)->context(), SIGINT, SIGTERM);
  signals.async_wait([&](const boost::system::error_code& failed, int) {
    if (!failed) cancellation.cancel();
  });
  std::optional<Api<AgentOutcome>> outcome;
  (*service)->run([&]() -> net::awaitable<void> {
    outcome = co_await run_agent((*service)->daemon(), (*service)->owner(), std::move(*model), std::move(asked),
                                 watching, cancellation);
    signals.cancel();
  }());
  watching.end_line();
  if (!outcome) return fail({.message = "the sandboxes cannot be reached any more", .hint = "try again"});
  if (!*outcome) return fail({.message = outcome->error().message, .hint = outcome->error().hint});
  return conclude(options, **outcome, report);
}

}  // namespace hutch
