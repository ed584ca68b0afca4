#include "cli/bench_measure.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <thread>

namespace hutch {
namespace {

using Clock = std::chrono::steady_clock;  // CLOCK_MONOTONIC

enum class Samples { keep, discard };

void keep(Series& series, Took took) {
  series.samples.push_back(took.all);
  if (!took.steps.empty()) series.steps.push_back(std::move(took.steps));
}

Result<void> measure_round(std::vector<Series>& all, std::chrono::milliseconds pause, Samples samples) {
  int passes = 0;
  for (const auto& series : all) passes = std::max(passes, series.per_round);
  for (int pass = 0; pass < passes; ++pass) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      auto& series = all[pass % 2 == 0 ? i : all.size() - 1 - i];
      if (pass >= series.per_round) continue;
      auto took = series.measure();
      if (!took) return std::move(took).error().during(series.name);
      if (samples == Samples::keep) keep(series, std::move(*took));
      if (pause.count() > 0) std::this_thread::sleep_for(pause);
    }
  }
  return {};
}

}  // namespace

Result<int> measure_in_turn(std::vector<Series>& all, const Schedule& schedule,
                            const std::function<void(const RoundProgress&)>& on_round) {
  for (int i = 0; i < schedule.warm_up; ++i) {
    on_round({.round = 0, .elapsed = Nanoseconds{0}});
    HUTCH_TRY(measure_round(all, schedule.pause, Samples::discard));
  }
  const auto start = Clock::now();
  for (int done = 0;; ++done) {
    const auto elapsed = Clock::now() - start;
    if (schedule.rounds > 0 && done >= schedule.rounds) return done;
    if (schedule.rounds == 0 && done >= kFewestRounds && elapsed >= schedule.budget) return done;
    on_round({.round = done + 1, .elapsed = elapsed});
    HUTCH_TRY(measure_round(all, schedule.pause, Samples::keep));
  }
}

double percentile_us(const std::vector<Nanoseconds>& sorted, double share) {
  if (sorted.empty()) return 0;
  const double place = std::clamp(share, 0.0, 1.0) * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(place));
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  const double low = static_cast<double>(sorted[below].count());
  const double high = static_cast<double>(sorted[above].count());
  return (low + (high - low) * (place - static_cast<double>(below))) / 1000;
}

Summary summarize(const std::vector<Nanoseconds>& samples) {
  auto sorted = samples;
  std::ranges::sort(sorted);
  const double median = percentile_us(sorted, 0.5);
  const double range = percentile_us(sorted, 0.75) - percentile_us(sorted, 0.25);
  Summary summary{.count = sorted.size(), .p50_us = median, .spread = median > 0 ? range / median : 0};
  if (summary.count >= kEnoughForP95) summary.p95_us = percentile_us(sorted, 0.95);
  if (summary.count >= kEnoughForP99) summary.p99_us = percentile_us(sorted, 0.99);
  return summary;
}

std::vector<StepSummary> summarize_steps(const std::vector<std::vector<StepTook>>& runs) {
  std::vector<std::vector<std::string>> names;
  std::map<std::string, std::vector<Nanoseconds>> times;
  for (const auto& run : runs) {
    names.emplace_back();
    for (const auto& step : run) {
      names.back().push_back(step.name);
      times[step.name].push_back(step.took);
    }
  }
  std::vector<StepSummary> result;
  for (auto& name : merge_names(names)) {
    const auto summary = summarize(times[name]);
    if (2 * summary.count < runs.size()) continue;
    result.push_back({.name = std::move(name), .count = summary.count, .p50_us = summary.p50_us});
  }
  return result;
}

std::vector<std::string> merge_names(const std::vector<std::vector<std::string>>& lists) {
  std::vector<std::string> merged;
  for (const auto& list : lists) {
    auto place = merged.begin();
    for (const auto& name : list) {
      const auto known = std::ranges::find(merged, name);
      place = std::next(known != merged.end() ? known : merged.insert(place, name));
    }
  }
  return merged;
}

}  // namespace hutch
