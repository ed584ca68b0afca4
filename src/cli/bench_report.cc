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

#include "base/subprocess.h"
#include "cli/report.h"

namespace hutch {
namespace {

std::string show_time(double us) {
  if (us >= 1e6) return fmt::format("{:.2f} s", us / 1e6);
  return fmt::format("{:.2f} ms", us / 1e3);
}

double rounded(double value) { return std::round(value * 1e4) / 1e4; }
std::int64_t whole(double us) { return std::llround(us); }

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
  return json::serialize(json::object{{"ratios", std::move(ratios)},
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
  text += fmt::format("\nHutch {}, template `{}`, {:%Y-%m-%d}, {} rounds in {} s.\n\n", result.version,
                      result.template_name, fmt::gmtime(std::time(nullptr)), result.rounds, result.duration.count());
  text += fmt::format("- Machine: {}\n- Noise: {}\n", machine_line(result.machine), noise_line(result));
  for (const auto& note : result.notes) text += fmt::format("- Note: {}\n", note);
  return text;
}

}  // namespace hutch
