#include "cli/template_command.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <chrono>
#include <cstdio>

#include "base/subprocess.h"
#include "session/template_builder.h"

namespace hutch {

namespace json = boost::json;

namespace {

constexpr std::size_t kLongestError = 160;  // in a list; show prints all of it

// Foreign bytes on a terminal: no escape sequences, no line that moves the cursor.
std::string printable(std::string_view text) {
  std::string clean;
  for (const char c : text) clean += static_cast<unsigned char>(c) < ' ' || c == '\x7f' ? ' ' : c;
  return clean;
}

std::string human(Bytes size) {
  if (size.count >= (1_GiB).count) return fmt::format("{:.1f} GiB", static_cast<double>(size.count) / (1U << 30));
  return fmt::format("{:.0f} MiB", static_cast<double>(size.count) / (1U << 20));
}

int report(const Error& error) {
  const bool colour = ::isatty(STDERR_FILENO) != 0;
  fmt::print(stderr, "{}error:{} {}\n", colour ? "\033[1;31m" : "", colour ? "\033[0m" : "", error.message);
  if (!error.hint.empty()) fmt::print(stderr, "  {}\n", error.hint);
  return 1;
}

json::array texts(const std::vector<std::string>& values) {
  json::array list;
  for (const auto& value : values) list.emplace_back(value);
  return list;
}

json::object to_json(const TemplateInfo& info) {
  json::object variables;
  for (const auto& [name, value] : info.environment) variables[name] = value;
  json::object object{{"name", info.name},
                      {"description", info.description},
                      {"state", info.state == TemplateState::not_built ? "not_built" : to_string(info.state)},
                      {"needs_build", info.needs_build},
                      {"origin", info.origin},
                      {"interpreter", info.interpreter},
                      {"python", info.python},
                      {"packages", texts(info.packages)},
                      {"preload", texts(info.preload)},
                      {"environment", std::move(variables)}};
  if (!info.error.empty()) object["error"] = info.error;
  if (!info.path.empty()) {
    object["path"] = info.path.string();
    object["size"] = info.size.count;
    object["built_at"] = info.built_at;
    object["cjk_font"] = info.cjk_font;
    object["installed"] = texts(info.installed);
  }
  return object;
}

void print_json(const json::value& value) { fmt::print("{}\n", json::serialize(value)); }

// Draws one line and rewrites it on a terminal; elsewhere prints a line for each step.
class ProgressLine {
 public:
  void show(const BuildProgress& progress) {
    switch (progress.kind) {
      case BuildProgress::Kind::step:
        step_ = fmt::format("[{}/{}] {}", progress.step, progress.steps, progress.text);
        if (terminal_) {
          redraw(step_);
        } else {
          fmt::print(stderr, "{}\n", step_);
        }
        return;
      case BuildProgress::Kind::detail:
        if (terminal_) redraw(fmt::format("{}: {}", step_, printable(progress.text)));
        return;
      case BuildProgress::Kind::notice:
        clear();
        fmt::print(stderr, "{}\n", printable(progress.text));
        return;
    }
  }
  void clear() const {
    if (terminal_) fmt::print(stderr, "\r\033[K");
  }

 private:
  // Cut to the width of the terminal: a line that wraps cannot be rewritten. UTF-8 sequences stay whole.
  static void redraw(std::string line) {
    winsize size{};
    const std::size_t width = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1U : 79;
    if (line.size() > width) {
      line.resize(width);
      while (!line.empty() && (static_cast<unsigned char>(line.back()) & 0xC0) == 0x80) line.pop_back();
      if (!line.empty() && static_cast<unsigned char>(line.back()) >= 0xC0) line.pop_back();
    }
    fmt::print(stderr, "\r\033[K{}", line);
    std::fflush(stderr);
  }

  bool terminal_ = ::isatty(STDERR_FILENO) != 0;
  std::string step_;
};

void print_wrapped(std::string_view label, const std::vector<std::string>& words) {
  constexpr std::size_t kWidth = 100;
  if (words.empty()) return;
  std::string line;
  std::string_view title = label;
  for (const auto& word : words) {
    if (!line.empty() && line.size() + word.size() + 2 > kWidth) {
      fmt::print("{:<13}{}\n", title, line);
      title = "";
      line.clear();
    }
    line += (line.empty() ? "" : "  ") + word;
  }
  fmt::print("{:<13}{}\n", title, line);
}

void print_field(std::string_view label, std::string_view value) {
  if (!value.empty()) fmt::print("{:<13}{}\n", label, value);
}

}  // namespace

int template_build(const TemplateStore& store, const std::string& name, Rebuild rebuild, OutputFormat format) {
  ProgressLine line;
  const auto started = std::chrono::steady_clock::now();
  const auto built = build_template(store, name,
                                    {.progress = [&line](const BuildProgress& progress) { line.show(progress); },
                                     .environment = current_environment(),
                                     .force = rebuild == Rebuild::always});
  line.clear();
  if (!built) return report(built.error());
  const auto info = store.show(name);
  if (!info) return report(info.error());
  if (format == OutputFormat::json) {
    print_json(to_json(*info));
  } else if (info->needs_build) {
    const auto took = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    fmt::print("{} is ready: {} packages, {}, Python {}, {:.0f} s\n", name, info->installed.size(), human(info->size),
               info->python, took);
  } else {
    fmt::print("{} is ready\n", name);
  }
  return 0;
}

int template_list(const TemplateStore& store, OutputFormat format) {
  const auto all = store.list();
  if (format == OutputFormat::json) {
    json::array list;
    for (const auto& info : all) list.emplace_back(to_json(info));
    print_json(list);
    return 0;
  }
  std::size_t width = 4;
  for (const auto& info : all) width = std::max(width, info.name.size());
  fmt::print("{:<{}}  {:<9}  {:<6}  {:>8}  {}\n", "NAME", width, "STATE", "PYTHON", "SIZE", "DESCRIPTION");
  for (const auto& info : all) {
    const auto size = info.path.empty() ? "-" : human(info.size);
    const auto text = info.error.empty() ? info.description : printable(info.error).substr(0, kLongestError);
    fmt::print("{:<{}}  {:<9}  {:<6}  {:>8}  {}\n", info.name, width, to_string(info.state),
               info.python.empty() ? "-" : info.python, size, text);
  }
  return 0;
}

int template_show(const TemplateStore& store, const std::string& name, OutputFormat format) {
  const auto info = store.show(name);
  if (!info) return report(info.error());
  if (format == OutputFormat::json) {
    print_json(to_json(*info));
    return 0;
  }
  print_field("name", info->name);
  print_field("description", info->description);
  print_field("state", to_string(info->state));
  print_field("error", info->error);
  print_field("defined in", info->origin);
  print_field("interpreter", info->interpreter);
  print_field("python", info->python);
  print_field("path", info->path.string());
  if (!info->path.empty()) print_field("size", human(info->size));
  print_field("built at", info->built_at);
  if (!info->path.empty()) print_field("CJK font", info->cjk_font.empty() ? "none" : info->cjk_font);
  print_wrapped("packages", info->packages);
  print_wrapped("installed", info->installed);
  print_wrapped("preload", info->preload);
  std::vector<std::string> variables;
  for (const auto& [key, value] : info->environment) variables.push_back(key + "=" + value);
  print_wrapped("environment", variables);
  if (info->state == TemplateState::not_built) fmt::print("\nBuild it with: hutch template build {}\n", name);
  return 0;
}

int template_rm(const TemplateStore& store, const std::string& name) {
  if (const auto removed = remove_template(store, name); !removed) return report(removed.error());
  fmt::print("{} is removed\n", name);
  return 0;
}

}  // namespace hutch
