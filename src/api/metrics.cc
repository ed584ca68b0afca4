#include "api/metrics.h"

#include <fmt/format.h>

#include <algorithm>

namespace hutch {
namespace {

void head(std::string& into, std::string_view name, std::string_view kind, std::string_view help) {
  into += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, kind);
}

// Label values are ids and words of ours; quotes could still come from a name of a system call.
std::string label(std::string_view text) {
  std::string result;
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') result += '\\';
    result += letter == '\n' ? ' ' : letter;
  }
  return result;
}

template <class Map>
void family(std::string& into, std::string_view name, std::string_view by, std::string_view help, const Map& values) {
  head(into, name, "counter", help);
  for (const auto& [key, value] : values) {
    into += fmt::format("{}{{{}=\"{}\"}} {}\n", name, by, label(fmt::format("{}", key)), value);
  }
}

}  // namespace

void Histogram::add(double seconds) {
  std::size_t bucket = 0;
  while (bucket < kBounds.size() && seconds > kBounds[bucket]) ++bucket;
  ++counts_[bucket];
  ++total_;
  sum_ += seconds;
}

void Histogram::print(std::string& into, std::string_view name, std::string_view labels) const {
  const std::string comma = labels.empty() ? "" : std::string(labels) + ",";
  const std::string braces = labels.empty() ? "" : "{" + std::string(labels) + "}";
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < kBounds.size(); ++i) {
    below += counts_[i];
    into += fmt::format("{}_bucket{{{}le=\"{}\"}} {}\n", name, comma, kBounds[i], below);
  }
  into += fmt::format("{}_bucket{{{}le=\"+Inf\"}} {}\n", name, comma, total_);
  into += fmt::format("{}_sum{} {}\n{}_count{} {}\n", name, braces, sum_, name, braces, total_);
}

void print_metric(std::string& into, std::string_view name, std::string_view kind, std::string_view help,
                  double value) {
  head(into, name, kind, help);
  into += fmt::format("{} {}\n", name, value);
}

void Metrics::add_phases(const wire::Phases& times, std::chrono::nanoseconds waited) {
  const auto add = [this](const char* phase, std::uint64_t us) { phases[phase].add(static_cast<double>(us) / 1e6); };
  add("validation", times.validation_us);
  phases["queue"].add(std::chrono::duration<double>(std::max(waited, std::chrono::nanoseconds(0))).count());
  add("setup", times.setup_us);
  add("execution", times.execution_us);
  add("collection", times.collection_us);
  add("total", times.total_us);
}

void Metrics::print(std::string& into) const {
  family(into, "hutch_runs_total", "status", "Runs that have ended.", runs_by_status);
  family(into, "hutch_run_errors_total", "category", "Runs that ended with an error.", errors_by_category);
  family(into, "hutch_denials_total", "syscall", "Forbidden system calls that programs made.", denials_by_call);
  family(into, "hutch_http_answers_total", "status", "Answers to HTTP requests.", answers_by_status);
  family(into, "hutch_cpu_seconds_total", "key", "Processor time of programs.", cpu_seconds_by_key);
  family(into, "hutch_cost_total", "key", "Processor time at the configured price.", cost_by_key);
  print_metric(into, "hutch_own_failures_total", "counter", "Runs that failed through no fault of their program.",
               static_cast<double>(own_failures));
  std::uint64_t all = 0;
  for (const auto& [status, count] : runs_by_status) all += count;
  print_metric(into, "hutch_success_ratio", "gauge", "Share of runs that did not fail through a fault of ours.",
               all == 0 ? 1.0 : 1.0 - static_cast<double>(own_failures) / static_cast<double>(all));
  print_metric(into, "hutch_cache_hits_total", "counter", "Runs answered from the cache.",
               static_cast<double>(cache_hits));
  print_metric(into, "hutch_cache_misses_total", "counter", "Runs that might have been.",
               static_cast<double>(cache_misses));
  head(into, "hutch_run_seconds", "histogram", "Where the time of runs went.");
  for (const auto& [phase, histogram] : phases) {
    histogram.print(into, "hutch_run_seconds", fmt::format("phase=\"{}\"", phase));
  }
  head(into, "hutch_http_request_seconds", "histogram", "From request to the end of its answer.");
  request_seconds.print(into, "hutch_http_request_seconds", "");
}

}  // namespace hutch
