// The tools `code_execution` and `execute_python`: runs in a sandbox of their own, in the shapes that their documents
// fix. Every number is measured.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "api/base64.h"
#include "api/record_json.h"
#include "api/tools/code_scan.h"
#include "api/tools/handlers.h"
#include "api/tools/packages.h"
#include "api/tools/place.h"
#include "api/tools/run_result.h"
#include "base/utf8.h"
#include "session/workspace.h"

namespace hutch {
namespace {

namespace json = boost::json;

constexpr std::uint64_t kLargestContent = 8U << 20;  // of one file that goes into a result
constexpr std::uint64_t kAllContents = 16U << 20;

double milliseconds(std::uint64_t us) { return static_cast<double>(us) / 1000.0; }
double since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

std::vector<std::string> names_argument(const ToolCall& call, std::string_view name) {
  std::vector<std::string> names;
  if (const auto* list = call.arguments.if_contains(name)) {
    for (const auto& one : list->get_array()) names.emplace_back(one.get_string());
  }
  return names;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + printable(name);
  return text;
}

Handled check_packages(const ToolCall& call, const std::vector<std::string>& wanted) {
  if (wanted.empty()) return {};
  const auto installed = packages_of(call.daemon.settings.template_name);
  const auto missing = missing_packages(wanted, installed);
  if (missing.empty()) return {};
  return std::unexpected(
      ApiError{.status = 403,
               .category = "permission_denied",
               .code = "package_installation_failed",
               .message = "Package installation failed: this sandbox does not install packages, and its template has "
                          "not got " +
                          joined(missing) + ".",
               .hint = "Use what is there: the standard library" + (installed.empty() ? "" : ", " + joined(installed)) +
                       ". The operator can add packages to a template."});
}

// Of a file that a run left; nothing when it is too large or gone.
std::optional<std::string> content_of(const LiveRun& run, std::size_t index, std::uint64_t& left) {
  const auto& entry = run.files()[index];
  if (entry.size > kLargestContent || entry.size > left) return std::nullopt;
  const UniqueFd file{::open((run.files_path() / std::to_string(index)).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0 || static_cast<std::uint64_t>(status.st_size) > left) {
    return std::nullopt;
  }
  std::string content(static_cast<std::size_t>(status.st_size), '\0');
  if (::read(file.get(), content.data(), content.size()) != status.st_size) return std::nullopt;
  left -= content.size();
  return content;
}

json::array created_files(const LiveRun& run, bool with_content) {
  json::array files;
  std::uint64_t left = kAllContents;
  for (std::size_t i = 0; i < run.files().size(); ++i) {
    const auto& file = run.files()[i];
    if (file.change == wire::Change::deleted) continue;
    json::object entry{{"path", "/workspace/" + clean_utf8(file.path)},
                       {"size_bytes", file.size},
                       {"mime_type", file.mime_type},
                       {"created_at", timestamp(file.modified_ns)}};
    if (with_content) {
      const auto content = content_of(run, i, left);
      entry["content_base64"] = content ? json::value(base64_encode(*content)) : json::value(nullptr);
    }
    files.push_back(std::move(entry));
  }
  return files;
}

// What the scan suspected and what the kernel refused.
json::object security_validation(const CodeScan& scan, double scan_ms, const LiveRun& run) {
  json::array blocked;
  if (run.record()) {
    for (const auto& denial : run.record()->denials) blocked.emplace_back(denial.syscall);
  }
  json::array warnings;
  for (const auto& warning : scan.warnings) warnings.emplace_back(warning);
  const bool refused = run.record() && run.record()->error && run.record()->error->code == "seccomp_violation";
  const Risk risk = blocked.empty() ? scan.risk : std::max(scan.risk, Risk::high);
  return {{"allowed", !refused},
          {"risk_level", name(risk)},
          {"blocked_operations", std::move(blocked)},
          {"warnings", std::move(warnings)},
          {"scan_duration_ms", scan_ms}};
}

Api<std::string> working_directory(const ToolCall& call) {
  std::string path = text_argument(call, "working_directory");
  if (path.empty() || path == "/workspace" || path == "/workspace/") return std::string();
  const bool listed = path.starts_with("/workspace/") || path == "/tmp" || path.starts_with("/tmp/");
  if (listed && path.find("..") == std::string::npos && path.find('\0') == std::string::npos) return path;
  return std::unexpected(ApiError{.status = 403,
                                  .category = "permission_denied",
                                  .code = "path_denied",
                                  .message = "working_directory must be /workspace or /tmp, or a directory below them.",
                                  .hint = "Leave it out to run in /workspace."});
}

}  // namespace

net::awaitable<Api<ToolResult>> code_execution_tool(ToolCall& call) {
  const auto begin = Clock::now();
  HUTCH_API_TRY(auto directory, working_directory(call));
  HUTCH_API_CHECK(check_packages(call, names_argument(call, "install_packages")));
  std::string code = text_argument(call, "code");
  const auto scan_begin = Clock::now();
  const CodeScan scan = scan_code(code);
  const double scan_ms = since(scan_begin);
  const double validation_ms = since(begin);
  OneShot what = one_shot_of(call, std::move(code), std::chrono::seconds(number_argument(call, "timeout", 30)));
  what.request.directory = std::move(directory);
  HUTCH_API_TRY(const auto run, co_await run_fresh(call, std::move(what)));
  const auto processing = Clock::now();
  const bool capture = flag_argument(call, "capture_output");
  const bool base64 = flag_argument(call, "return_base64");
  ToolResult result = result_of(run, nullptr);
  const wire::Record record = run->record().value_or(wire::Record{});
  const double wall = milliseconds(record.usage.wall_us);
  json::object shaped{
      {"status", result.structured["status"]},
      {"exit_code", result.structured["exit_code"]},
      {"success", status_word(*run) == "ok"},
      {"execution_time_ms", wall},
      {"stdout", capture ? result.structured["stdout"] : json::value("")},
      {"stderr", capture ? result.structured["stderr"] : json::value("")},
      {"base64_output", base64 ? json::value(base64_encode(streams_of(*run).out)) : json::value(nullptr)},
      {"created_files", created_files(*run, base64)},
      {"installed_packages", json::array{}},  // nothing can be installed into a running sandbox yet, so nothing was
      {"security_validation", security_validation(scan, scan_ms, *run)},
      {"memory_usage_mb", static_cast<double>(record.usage.peak_memory) / 1e6},
      {"cpu_usage_percent", wall > 0 ? 100.0 * milliseconds(record.usage.cpu_us) / wall : 0.0},
      {"error", result.structured["error"]},
      {"execution_id", run->identity().id}};
  for (const char* name : {"isError", "errorCategory", "isRetryable", "context"}) {
    if (const auto* found = result.structured.if_contains(name)) shaped[name] = *found;
  }
  shaped["performance_metrics"] = {
      {"sandbox_setup_time_ms", milliseconds(record.phases.setup_us)},
      {"code_validation_time_ms", validation_ms + milliseconds(record.phases.validation_us)},
      {"execution_time_ms", wall},
      {"result_processing_time_ms", milliseconds(record.phases.collection_us) + since(processing)},
      {"total_time_ms", since(begin)}};
  result.structured = std::move(shaped);
  co_return result;
}

net::awaitable<Api<ToolResult>> execute_python_tool(ToolCall& call) {
  const auto wanted = names_argument(call, "packages");
  const auto refused = not_allowed(wanted, call.daemon.settings.package_allowlist);
  if (!refused.empty()) {
    co_return std::unexpected(
        ApiError{.status = 403,
                 .category = "permission_denied",
                 .code = "package_not_allowed",
                 .message = "Packages not allowed: " + joined(refused),
                 .hint = "Use packages of the allowlist; the operator sets it (serve.packages)."});
  }
  HUTCH_API_CHECK(check_packages(call, wanted));
  const auto timeout = std::chrono::milliseconds(std::max<std::int64_t>(1, number_argument(call, "timeout", 30'000)));
  OneShot what = one_shot_of(call, text_argument(call, "code"), timeout);
  for (const auto& value : call.arguments["files"].as_array()) {
    const auto& file = value.get_object();
    std::string path(file.at("name").as_string());
    HUTCH_API_TRY(path, workspace_path(path));
    std::string content(file.at("content").as_string());
    std::size_t at = 0;
    do {
      what.files.push_back({.path = path, .append = at > 0, .data = content.substr(at, wire::kFileChunk)});
      at += wire::kFileChunk;
    } while (at < content.size());
  }
  HUTCH_API_TRY(const auto run, co_await run_fresh(call, std::move(what)));
  ToolResult result = result_of(run, nullptr);
  json::array files;
  std::uint64_t left = kAllContents;
  for (std::size_t i = 0; i < run->files().size(); ++i) {
    const auto& file = run->files()[i];
    const auto content = file.change == wire::Change::deleted ? std::nullopt : content_of(*run, i, left);
    if (!content) continue;
    files.push_back(
        json::object{{"name", clean_utf8(file.path)}, {"mime", file.mime_type}, {"content", base64_encode(*content)}});
  }
  const bool timed_out = status_word(*run) == "timeout";
  const auto* error = result.structured["error"].if_object();
  json::value said = nullptr;
  if (error != nullptr) {
    said = (timed_out ? "timeout: " : "") + std::string(error->at("message").as_string());
  }
  json::object shaped{{"status", result.structured["status"]},
                      {"success", status_word(*run) == "ok"},
                      {"stdout", result.structured["stdout"]},
                      {"stderr", result.structured["stderr"]},
                      {"error", std::move(said)},
                      {"exitCode", result.structured["exit_code"]},
                      {"files", std::move(files)},
                      {"execution_id", run->identity().id}};
  for (const char* name : {"isError", "errorCategory", "isRetryable", "context"}) {
    if (const auto* found = result.structured.if_contains(name)) shaped[name] = *found;
  }
  result.structured = std::move(shaped);
  co_return result;
}

}  // namespace hutch
