#include "cli/bench_measure.h"

#include <algorithm>
#include <cmath>
#include <thread>

namespace hutch {
namespace {

using Clock = std::chrono::steady_clock;  // CLOCK_MONOTONIC

enum class Samples { keep, discard };

Result<void> measure_round(std::vector<Series>& all, std::chrono::milliseconds pause, Samples samples) {
  int passes = 0;
  for (const auto& series : all) passes = std::max(passes, series.per_round);
  for (int pass = 0; pass < passes; ++pass) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      auto& series = all[pass % 2 == 0 ? i : all.size() - 1 - i];
      if (pass >= series.per_round) continue;
      auto took = series.measure();
      if (!took) return std::move(took).error().during(series.name);
      if (samples == Samples::keep) series.samples.push_back(*took);
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
  return {.count = sorted.size(),
          .p50_us = median,
          .p95_us = percentile_us(sorted, 0.95),
          .p99_us = percentile_us(sorted, 0.99),
          .spread = median > 0 ? range / median : 0};
}

}  // namespace hutch
