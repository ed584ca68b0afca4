// Timing and statistics of `hutch bench`. Several things are measured in turn, again and again, so that whatever else
// the machine does falls on all of them alike; only their ratios are worth keeping.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace hutch {

using Nanoseconds = std::chrono::nanoseconds;

// One step of something that is measured, as the record of a run tells it.
struct StepTook {
  std::string name;
  Nanoseconds took{0};
};

// How long one measurement took, and its steps where they are known.
struct Took {
  Took(Nanoseconds all_of_it, std::vector<StepTook> its_steps = {}) : all(all_of_it), steps(std::move(its_steps)) {}
  Nanoseconds all;
  std::vector<StepTook> steps;
};

// One thing that is measured. `measure` does it once and says how long it took; an error ends the whole benchmark.
struct Series {
  std::string name;
  std::function<Result<Took>()> measure;
  int per_round = 1;  // slow ones take part once, quick ones several times
  std::vector<Nanoseconds> samples;
  std::vector<std::vector<StepTook>> steps;  // of every sample whose steps are known
};

struct Schedule {
  int rounds = 0;  // 0: as many as start within `budget`, and at least kFewestRounds
  std::chrono::milliseconds budget{0};
  int warm_up = 1;  // rounds whose samples are thrown away
  // After every sample, so that nobody pays for what the one before left to be cleaned up.
  std::chrono::milliseconds pause{15};
};

inline constexpr int kFewestRounds = 3;

struct RoundProgress {
  int round = 0;  // 0 while warming up
  Nanoseconds elapsed{0};
};

// Measures all series in turn, every other time from the last to the first, so that no two are always neighbours.
Result<int> measure_in_turn(std::vector<Series>& all, const Schedule& schedule,
                            const std::function<void(const RoundProgress&)>& on_round);

// With fewer samples a percentile would be the worst of them by another name.
inline constexpr std::size_t kEnoughForP95 = 20;
inline constexpr std::size_t kEnoughForP99 = 100;

struct Summary {
  std::size_t count = 0;
  double p50_us = 0;
  std::optional<double> p95_us;
  std::optional<double> p99_us;
  double spread = 0;  // interquartile range over median: how noisy it was
};

Summary summarize(const std::vector<Nanoseconds>& samples);

struct StepSummary {
  std::string name;
  std::size_t count = 0;
  double p50_us = 0;
};

// In the order in which they happen. What fewer than half of the runs had to do is not part of the usual start.
std::vector<StepSummary> summarize_steps(const std::vector<std::vector<StepTook>>& runs);

// Every name once, such that each of the lists keeps its order as far as they agree.
std::vector<std::string> merge_names(const std::vector<std::vector<std::string>>& lists);

// `share` of 0 to 1, linear between neighbours; 0 when there are no samples.
double percentile_us(const std::vector<Nanoseconds>& sorted, double share);

}  // namespace hutch
