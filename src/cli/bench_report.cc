#include "cli/bench_report.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <optional>

#include "base/subprocess.h"
#include "cli/report.h"

namespace hutch {
namespace {

std::string show_time(double us) {
  if (us >= 1e6) return fmt::format("{:.2f} s", us / 1e6);
  return fmt::format("{:.2f} ms", us / 1e3);
}
std::string show_time(std::optional<double> us) { return us ? show_time(*us) : "–"; }

double rounded(double value) { return std::round(value * 1e4) / 1e4; }
std::int64_t whole(double us) { return std::llround(us); }
boost::json::value whole(std::optional<double> us) {
  if (!us) return nullptr;
  return whole(*us);
}

std::string value_of(const std::string& line) {
  const std::size_t colon = line.find(": ");
  return colon == std::string::npos ? "" : line.substr(colon + 2);
}

void read_processor(Machine& machine) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line) && !line.empty();) {  // the first processor only
    if (line.starts_with("model name")) machine.cpu_model = value_of(line);
    if (line.starts_with("flags")) machine.is_virtual = line.find(" hypervisor") != std::string::npos;
  }
}

std::string machine_line(const Machine& machine) {
  return fmt::format("{}, {} x {}{}, {}, Linux {}", machine.python, machine.cpus, machine.cpu_model,
                     machine.is_virtual ? " (virtual machine)" : "", show_size(machine.memory_bytes), machine.kernel);
}

std::string noise_line(const BenchResult& result) {
  std::string text = fmt::format("load {:.2f} before, {:.2f} after", result.load_before, result.load_after);
  for (const auto& [name, spread] : result.anchor_spreads) {
    text += fmt::format("; {}: interquartile range {:.0f}% of the median", name, 100 * spread);
  }
  return text;
}

// The steps of all starts, one under the other, and for each start its medians; nothing where it has no such step.
struct StepTable {
  std::vector<std::string> names;
  std::vector<std::map<std::string, double>> medians;  // microseconds, one map for each of BenchResult::starts

  explicit StepTable(const std::vector<StartSteps>& starts) {
    std::vector<std::vector<std::string>> lists;
    for (const auto& start : starts) {
      lists.emplace_back();
      auto& of_this = medians.emplace_back();
      for (const auto& step : start.steps) {
        lists.back().push_back(step.name);
        of_this[step.name] = step.p50_us;
      }
    }
    names = merge_names(lists);
  }

  [[nodiscard]] std::string shown(std::size_t start, const std::string& name) const {
    const auto found = medians[start].find(name);
    return found == medians[start].end() ? "" : fmt::format("{:.3f}", found->second / 1e3);
  }
};

std::string steps_text(const std::vector<StartSteps>& starts) {
  const StepTable table(starts);
  std::string text = fmt::format("\n{:<38}", "steps of a start, p50 in ms");
  for (const auto& start : starts) text += fmt::format("  {:>14}", start.row);
  text += "\n";
  for (const auto& name : table.names) {
    text += fmt::format("{:<38}", name);
    for (std::size_t i = 0; i < starts.size(); ++i) {
      text += fmt::format("  {:>{}}", table.shown(i, name), std::max<std::size_t>(14, starts[i].row.size()));
    }
    text += "\n";
  }
  return text;
}

std::string steps_markdown(const std::vector<StartSteps>& starts) {
  const StepTable table(starts);
  std::string head = "| step, p50 in ms |";
  std::string line = "|---|";
  for (const auto& start : starts) {
    head += fmt::format(" `{}` |", start.row);
    line += "---:|";
  }
  std::string text = head + "\n" + line + "\n";
  for (const auto& name : table.names) {
    text += fmt::format("| {} |", name);
    for (std::size_t i = 0; i < starts.size(); ++i) text += fmt::format(" {} |", table.shown(i, name));
    text += "\n";
  }
  return text;
}

boost::json::array steps_json(const std::vector<StartSteps>& starts) {
  boost::json::array all;
  for (const auto& start : starts) {
    boost::json::array steps;
    for (const auto& step : start.steps) {
      steps.push_back(boost::json::object{{"name", step.name}, {"p50_us", rounded(step.p50_us)}, {"n", step.count}});
    }
    all.push_back(boost::json::object{{"of", start.row}, {"steps", std::move(steps)}});
  }
  return all;
}

std::string today() { return fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr))); }

}  // namespace

Machine Machine::look(const std::string& interpreter) {
  Machine machine;
  utsname names{};
  if (::uname(&names) == 0) machine.kernel = names.release;
  struct sysinfo memory{};
  if (::sysinfo(&memory) == 0) machine.memory_bytes = static_cast<std::uint64_t>(memory.totalram) * memory.mem_unit;
  machine.cpus = ::sysconf(_SC_NPROCESSORS_ONLN);
  read_processor(machine);
  auto version = run_checked({.argv = {interpreter, "-I", "-V"}, .environment = {}, .directory = "/"});
  machine.python = version ? version->output.substr(0, version->output.find('\n')) : interpreter;
  return machine;
}

double load_average() {
  double load = 0;
  return ::getloadavg(&load, 1) == 1 ? load : 0;
}

std::string bench_text(const BenchResult& result) {
  std::string text = fmt::format("{:<30}{:>11}{:>11}{:>11}{:>6}{:>11}{:>8}  {}\n", "", "p50", "p95", "p99", "n",
                                 "anchor p50", "ratio", "anchor");
  for (const auto& row : result.rows) {
    text += fmt::format("{:<30}{:>11}{:>11}{:>11}{:>6}{:>11}{:>8.3f}  {}\n", row.name, show_time(row.subject.p50_us),
                        show_time(row.subject.p95_us), show_time(row.subject.p99_us), row.subject.count,
                        show_time(row.against.p50_us), row.ratio(), row.anchor);
  }
  text += steps_text(result.starts);
  text += fmt::format("\ntemplate {}, {} rounds in {} s\nmachine: {}\nnoise: {}\n", result.template_name, result.rounds,
                      result.duration.count(), machine_line(result.machine), noise_line(result));
  for (const auto& note : result.notes) text += fmt::format("note: {}\n", note);
  return text;
}

std::string bench_json(const BenchResult& result) {
  namespace json = boost::json;
  json::array ratios;
  for (const auto& row : result.rows) {
    ratios.push_back(json::object{{"name", row.name},
                                  {"ratio", rounded(row.ratio())},
                                  {"p50_us", whole(row.subject.p50_us)},
                                  {"p95_us", whole(row.subject.p95_us)},
                                  {"p99_us", whole(row.subject.p99_us)},
                                  {"n", row.subject.count},
                                  {"anchor", row.anchor},
                                  {"anchor_p50_us", whole(row.against.p50_us)},
                                  {"anchor_p95_us", whole(row.against.p95_us)},
                                  {"anchor_n", row.against.count}});
  }
  json::object spreads;
  for (const auto& [name, spread] : result.anchor_spreads) spreads[name] = rounded(spread);
  const auto& machine = result.machine;
  return json::serialize(json::object{{"program", "starts"},
                                      {"date", today()},
                                      {"ratios", std::move(ratios)},
                                      {"steps", steps_json(result.starts)},
                                      {"machine", json::object{{"kernel", machine.kernel},
                                                               {"cpus", machine.cpus},
                                                               {"cpu_model", machine.cpu_model},
                                                               {"memory_bytes", machine.memory_bytes},
                                                               {"python", machine.python},
                                                               {"virtual", machine.is_virtual}}},
                                      {"noise", json::object{{"load_before", rounded(result.load_before)},
                                                             {"load_after", rounded(result.load_after)},
                                                             {"anchor_relative_iqr", std::move(spreads)}}},
                                      {"template", result.template_name},
                                      {"hutch", result.version},
                                      {"rounds", result.rounds},
                                      {"duration_s", result.duration.count()},
                                      {"notes", json::array(result.notes.begin(), result.notes.end())}}) +
         "\n";
}

std::string bench_markdown(const BenchResult& result) {
  std::string text =
      "| | p50 | p95 | p99 | n | against | its p50 | its p95 | ratio |\n|---|---:|---:|---:|---:|---|---:|---:|---:|\n";
  for (const auto& row : result.rows) {
    text += fmt::format("| `{}` | {} | {} | {} | {} | `{}` | {} | {} | **{:.3f}** |\n", row.name,
                        show_time(row.subject.p50_us), show_time(row.subject.p95_us), show_time(row.subject.p99_us),
                        row.subject.count, row.anchor, show_time(row.against.p50_us), show_time(row.against.p95_us),
                        row.ratio());
  }
  text += "\n" + steps_markdown(result.starts);
  text += fmt::format("\nHutch {}, template `{}`, {}, {} rounds in {} s.\n\n", result.version, result.template_name,
                      today(), result.rounds, result.duration.count());
  text += fmt::format("- Machine: {}\n- Noise: {}\n", machine_line(result.machine), noise_line(result));
  for (const auto& note : result.notes) text += fmt::format("- Note: {}\n", note);
  return text;
}

}  // namespace hutch
