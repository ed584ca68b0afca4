#include "cli/report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/utf8.h"
#include "session/display_rules.h"

namespace hutch {
namespace {

constexpr const char* kRed = "31";
constexpr const char* kGreen = "32";
constexpr const char* kYellow = "33";
constexpr const char* kDim = "2";
constexpr const char* kBold = "1";

void line(const std::string& text) { fmt::print(stderr, "{}\n", text); }

std::string show_time(std::uint64_t us) {
  if (us >= 1'000'000) return fmt::format("{:.2f} s", static_cast<double>(us) / 1e6);
  return fmt::format("{:.2f} ms", static_cast<double>(us) / 1e3);
}

}  // namespace

std::string show_size(std::uint64_t bytes) {
  if (bytes >= 1ULL << 30) return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1ULL << 30));
  if (bytes >= 1ULL << 20) return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1ULL << 20));
  if (bytes >= 1ULL << 10) return fmt::format("{:.1f} KiB", static_cast<double>(bytes) / (1ULL << 10));
  return fmt::format("{} B", bytes);
}

Report::Report() : colour_(::isatty(2) == 1 && std::getenv("NO_COLOR") == nullptr) {}

std::string Report::paint(const char* code, const std::string& text) const {
  return colour_ ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
}

void Report::error(const std::string& message, const std::string& hint) const {
  line(paint(kRed, "hutch:") + " " + clean_utf8(message));
  if (!hint.empty()) line(paint(kDim, "hint: " + clean_utf8(hint)));
}

void Report::notice(const std::string& text) const { line(paint(kYellow, "hutch:") + " " + text); }

void Report::run_error(const wire::RunError& error) const {
  if (error.category == "system_exit") return;  // the program meant it
  std::string text = error.message;
  if (!error.limit_name.empty()) {
    const bool bytes = error.limit_unit == "bytes";
    const auto show = [&](std::uint64_t value) {
      return bytes ? show_size(value) : error.limit_unit == "ms" ? show_time(value * 1000) : std::to_string(value);
    };
    text += fmt::format(" [limit {}: {}, used {}]", error.limit_name, show(error.limit_value), show(error.limit_used));
  }
  this->error(text, error.hint);
}

void Report::file_brought_out(const std::string& path, std::uint64_t size) const {
  line(paint(kGreen, "brought out ") + printable(path) + paint(kDim, " (" + show_size(size) + ")"));
}

void Report::explain(const wire::Record& record) const {
  line("");
  line(paint(kBold, fmt::format("Where the time went ({}, template {})", record.warm ? "warm start" : "cold start",
                                record.template_name)));
  for (const auto& step : record.steps) {
    if (step.duration_us == 0 && step.name.starts_with("join: ")) continue;
    line(fmt::format("  {:<34} {:>10}", step.name, show_time(step.duration_us)));
  }
  line(fmt::format("  {:<34} {:>10}", "total", show_time(record.phases.total_us)));
  line(paint(kBold, "Used"));
  line(fmt::format("  cpu {}, peak memory {}, scratch {}, output {}", show_time(record.usage.cpu_us),
                   show_size(record.usage.peak_memory), show_size(record.usage.scratch_used),
                   show_size(record.usage.output)));
  line(paint(kBold, "Walls"));
  for (const auto& wall : record.walls) {
    line(fmt::format("  {} {:<13} {}", wall.up ? paint(kGreen, "up  ") : paint(kRed, "DOWN"), wall.name, wall.detail));
  }
  line(paint(kBold, "Denials"));
  if (record.denials.empty()) line("  none");
  for (const auto& denial : record.denials) {
    line(fmt::format("  {}{} x{}: {}", denial.syscall, denial.detail.empty() ? "" : " (" + denial.detail + ")",
                     denial.count, denial.hint));
  }
}

std::string display_line(const wire::Display& display) {
  const std::string_view text = plain_text(display);
  return text.empty() ? std::string() : std::string(text) + "\n";
}

}  // namespace hutch
