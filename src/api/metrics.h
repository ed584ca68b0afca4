// Counts and times for /metrics, in the text form of Prometheus. Only the event loop touches them.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "wire/record.h"

namespace hutch {

class Histogram {
 public:
  void add(double seconds);
  void print(std::string& into, std::string_view name, std::string_view labels) const;

 private:
  static constexpr std::array kBounds{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                      0.25,  0.5,    1.0,   2.5,  5.0,   10.0, 30.0};
  std::array<std::uint64_t, kBounds.size() + 1> counts_{};
  double sum_ = 0;
  std::uint64_t total_ = 0;
};

struct Metrics {
  std::map<std::string, std::uint64_t> runs_by_status;
  std::map<std::string, std::uint64_t> errors_by_category;
  std::map<std::string, std::uint64_t> denials_by_call;
  std::map<unsigned, std::uint64_t> answers_by_status;
  std::map<std::string, double> cpu_seconds_by_key;
  std::map<std::string, double> cost_by_key;
  std::map<std::string, Histogram> phases;  // validation, queue, setup, execution, collection, total
  Histogram request_seconds;
  std::uint64_t own_failures = 0;  // runs that failed through no fault of their program
  std::uint64_t cache_hits = 0, cache_misses = 0;

  // `waited`: from the request until the run had a place.
  void add_phases(const wire::Phases& phases, std::chrono::nanoseconds waited);
  void print(std::string& into) const;
};

// One value with its explanation.
void print_metric(std::string& into, std::string_view name, std::string_view kind, std::string_view help, double value);

}  // namespace hutch
