#include "cli/run_command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <optional>

#include "api/engine_client.h"
#include "api/record_json.h"
#include "base/utf8.h"
#include "cli/arguments.h"
#include "cli/input_files.h"
#include "cli/output_files.h"
#include "cli/report.h"
#include "session/template_store.h"

namespace hutch {
namespace {

constexpr std::size_t kMostProgram = 16U << 20;

std::atomic<bool> interrupted = false;

Result<std::string> read_all(int fd, const std::string& name) {
  std::string text;
  std::string chunk(64 << 10, '\0');
  for (;;) {
    const ssize_t size = ::read(fd, chunk.data(), chunk.size());
    if (size < 0) return system_error(errno).during("read " + name);
    if (size == 0) return text;
    text.append(chunk, 0, static_cast<std::size_t>(size));
    if (text.size() > kMostProgram) {
      return make_error(ErrorCode::invalid_argument, name + " is longer than 16 MiB")
          .with_hint("put data in with --in");
    }
  }
}

Result<std::string> read_program(const std::string& path) {
  const UniqueFd file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!file)
    return system_error(errno).during("read " + path).with_hint("name a Python file, - for standard input, or -c CODE");
  struct stat status{};
  if (::fstat(file.get(), &status) == 0 && S_ISDIR(status.st_mode)) {
    return make_error(ErrorCode::invalid_argument, path + " is a directory")
        .with_hint("name a Python file in it, and put the directory in with --in " + path);
  }
  return read_all(file.get(), path);
}

void write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t size = ::write(fd, bytes.data(), bytes.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return;  // whoever reads our output has gone; the run goes on
    bytes.remove_prefix(static_cast<std::size_t>(size));
  }
}

class RunEvents final : public ClientEvents {
 public:
  RunEvents(const RunOptions& options, std::optional<OutputDirectory> directory, const Report& report)
      : options_(options), directory_(std::move(directory)), report_(report) {}

  void on_output(const wire::OutputEvent& event) override {
    if (options_.json) {
      events_.push_back(event);
    } else if (event.display) {
      write_all(1, display_line(*event.display));
    } else {
      write_all(event.stream == wire::Stream::out ? 1 : 2, event.data);
    }
  }

  void on_file(const wire::FileEntry& file, UniqueFd content) override {
    files_.push_back(file);
    if (!directory_ || !content) return;
    if (const auto put = directory_->put(file, content.get()); put) {
      brought_.emplace_back(directory_->path() + "/" + file.path, file.size);
    } else if (put.error().code == ErrorCode::invalid_argument) {
      notices_.push_back("left behind: " + printable(file.path) + ": " + put.error().message);
    } else {
      failed_ = true;
      report_.error(put.error().message, "");
    }
  }

  std::vector<std::string> notices_;
  std::vector<wire::OutputEvent> events_;
  std::vector<wire::FileEntry> files_;
  std::vector<std::pair<std::string, std::uint64_t>> brought_;
  bool failed_ = false;

 private:
  const RunOptions& options_;
  std::optional<OutputDirectory> directory_;
  const Report& report_;
};

int report_failure(const RunOptions& options, const Report& report, const wire::Failed& failed) {
  if (options.json) fmt::print("{}\n", failure_to_json(failed));
  report.error(failed.message, failed.hint);
  return kOwnFailure;
}

int report_failure(const RunOptions& options, const Report& report, const Error& error) {
  const bool request = error.code == ErrorCode::invalid_argument || error.code == ErrorCode::not_found;
  return report_failure(
      options, report,
      wire::Failed{
          .message = error.message, .hint = error.hint, .code = request ? "bad_arguments" : "sandbox_start_failed"});
}

int report_record(const RunOptions& options, const Report& report, const RunEvents& events, wire::Record record,
                  const std::string& notice) {
  if (!notice.empty()) record.notices.push_back(notice);
  record.notices.insert(record.notices.end(), events.notices_.begin(), events.notices_.end());
  if (options.json) fmt::print("{}\n", record_to_json(record, events.events_, events.files_));
  if (!options.quiet && !options.json) {
    for (const auto& [path, size] : events.brought_) report.file_brought_out(path, size);
    if (record.error) report.run_error(*record.error);
    for (const auto& text : record.notices) report.notice(text);
  }
  if (options.explain) report.explain(record);
  if (events.failed_ && record.exit_code == 0) return kOwnFailure;
  return record.exit_code;
}

}  // namespace

Result<void> add_program(const RunOptions& options, ClientRun& run) {
  auto& request = run.request;
  if (options.has_code) {
    request.code = options.code;
    request.file_name = "<string>";
    run.input = 0;
  } else if (options.file == "-") {
    HUTCH_TRY(request.code, read_all(0, "standard input"));
    request.file_name = "<stdin>";  // the program was the input; there is none left for it
  } else {
    HUTCH_TRY(request.code, read_program(options.file));
    const std::string name = std::filesystem::path(options.file).filename().string();
    request.file_name = "/workspace/" + name;
    request.has_file = true;
    // The program is there as a file too, for multiprocessing and for programs that read themselves.
    run.files.push_back({.path = name, .data = request.code});
    run.input = 0;
  }
  return {};
}

Result<EngineClient> reach_engine(const RunOptions& options, const Config& config, const std::string& template_name) {
  if (options.no_engine) return EngineClient::start_private(config.engine, template_name);
  HUTCH_TRY(auto location, EngineLocation::find());
  location.settings = config.engine.identity();
  return EngineClient::connect_or_start(location);
}

Result<wire::RunRequest> make_request(const RunOptions& options, const Config& config, std::string& notice) {
  Limits limits = config.limits;
  if (!options.timeout.empty()) {
    HUTCH_TRY(limits.wall, parse_seconds(options.timeout));
    if (options.cpu_time.empty() && limits.cpu < limits.wall) limits.cpu = limits.wall;
  }
  if (!options.cpu_time.empty()) {
    HUTCH_TRY(limits.cpu, parse_seconds(options.cpu_time));
  }
  if (!options.memory.empty()) {
    HUTCH_TRY(limits.memory, parse_size(options.memory));
  }
  if (!options.scratch.empty()) {
    HUTCH_TRY(limits.scratch, parse_size(options.scratch));
  }
  if (!options.output.empty()) {
    HUTCH_TRY(limits.output, parse_size(options.output));
  }
  if (options.cpu_percent) limits.cpu_percent = *options.cpu_percent;
  if (options.processes) limits.processes = *options.processes;
  if (options.open_files) limits.open_files = *options.open_files;
  if (options.inodes) limits.inodes = *options.inodes;
  HUTCH_TRY(validate(limits, config.engine.ceiling));

  HUTCH_TRY(const auto paths, TemplatePaths::from_environment());
  HUTCH_TRY(const auto store, TemplateStore::open(paths));
  const std::string& name = options.template_name.empty() ? config.template_name : options.template_name;
  HUTCH_TRY(const auto choice, store.choose(name));
  notice = choice.notice;

  wire::RunRequest request{.template_name = choice.chosen.name,
                           .weaker_limits = options.weaker_limits,
                           .cold = options.no_engine,
                           .on_demand = options.no_pool,
                           .want_files = !options.output_directory.empty(),
                           .as_cell = options.as_cell,
                           .fault = options.fault};
  request.limits = {.wall_ms = static_cast<std::uint64_t>(limits.wall.count()),
                    .cpu_ms = static_cast<std::uint64_t>(limits.cpu.count()),
                    .memory = limits.memory.count,
                    .scratch = limits.scratch.count,
                    .output = limits.output.count,
                    .cpu_percent = limits.cpu_percent,
                    .processes = limits.processes,
                    .open_files = limits.open_files,
                    .inodes = limits.inodes};
  for (const auto& variable : options.environment) {
    const std::size_t equals = variable.find('=');
    if (equals == std::string::npos || equals == 0) {
      return make_error(ErrorCode::invalid_argument, "not an environment variable: " + variable)
          .with_hint("write --env NAME=VALUE");
    }
    request.environment.emplace_back(variable.substr(0, equals), variable.substr(equals + 1));
  }
  request.arguments = options.arguments;
  return request;
}

int run_command(const RunOptions& options, const Config& config) {
  const Report report;
  ::signal(SIGPIPE, SIG_IGN);
  std::string notice;
  ClientRun run;
  const auto prepare = [&]() -> Result<std::optional<OutputDirectory>> {
    HUTCH_TRY(run.request, make_request(options, config, notice));
    HUTCH_TRY(add_program(options, run));
    HUTCH_TRY(auto inputs, read_inputs(options.inputs, Bytes{run.request.limits.scratch}));
    for (auto& file : inputs) run.files.push_back(std::move(file));
    if (options.output_directory.empty()) return std::optional<OutputDirectory>{};
    HUTCH_TRY(auto directory, OutputDirectory::open(options.output_directory));
    return std::optional<OutputDirectory>{std::move(directory)};
  };
  auto directory = prepare();
  if (!directory) return report_failure(options, report, directory.error());
  auto client = reach_engine(options, config, run.request.template_name);
  if (!client) return report_failure(options, report, client.error());

  // Ctrl-C ends the run, not the client: the record still comes.
  client->interrupted = &interrupted;
  struct sigaction on_interrupt{};
  on_interrupt.sa_handler = [](int) { interrupted = true; };
  ::sigaction(SIGINT, &on_interrupt, nullptr);
  ::sigaction(SIGTERM, &on_interrupt, nullptr);

  RunEvents events(options, std::move(*directory), report);
  auto outcome = client->run(std::move(run), events);
  if (!outcome) return report_failure(options, report, outcome.error());
  if (const auto* failed = std::get_if<wire::Failed>(&*outcome)) return report_failure(options, report, *failed);
  return report_record(options, report, events, std::get<wire::Record>(std::move(*outcome)), notice);
}

}  // namespace hutch
