// What `hutch bench` found, and the three ways to print it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cli/bench_measure.h"

namespace hutch {

struct BenchRow {
  std::string name;
  Summary subject;
  std::string anchor;  // what a person would type
  Summary against;
  [[nodiscard]] double ratio() const { return against.p50_us > 0 ? subject.p50_us / against.p50_us : 0; }
};

// Where the time of one kind of start goes.
struct StartSteps {
  std::string row;
  std::vector<StepSummary> steps;
};

struct Machine {
  std::string kernel;
  std::string cpu_model;
  std::string python;
  long cpus = 0;
  std::uint64_t memory_bytes = 0;
  bool is_virtual = false;

  static Machine look(const std::string& interpreter);
};

struct BenchResult {
  std::vector<BenchRow> rows;
  std::vector<StartSteps> starts;
  Machine machine;
  std::vector<std::pair<std::string, double>> anchor_spreads;  // Summary::spread of each anchor
  double load_before = 0;
  double load_after = 0;
  std::string template_name;
  std::string version;
  std::vector<std::string> notes;
  int rounds = 0;
  std::chrono::seconds duration{0};
};

// The load of the last minute, as /proc/loadavg has it.
double load_average();

std::string bench_text(const BenchResult& result);
std::string bench_json(const BenchResult& result);
std::string bench_markdown(const BenchResult& result);

}  // namespace hutch
