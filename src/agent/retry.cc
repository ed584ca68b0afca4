#include "agent/retry.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace hutch::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::system_clock;

constexpr double kMostJitter = 0.25;
constexpr double kMostMilliseconds = 1e12;  // a number of the server's must not overflow ours

std::string_view header(const FailedAttempt& attempt, const char* name) {
  const auto found = attempt.headers.find(name);
  return found != attempt.headers.end() ? std::string_view(found->second) : std::string_view{};
}

std::optional<double> parse_number(std::string_view text) {
  double number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc{} || end != text.data() + text.size() || !std::isfinite(number)) return std::nullopt;
  return number;
}

std::optional<milliseconds> positive(double count) {
  if (!(count > 0)) return std::nullopt;
  return milliseconds(static_cast<milliseconds::rep>(std::ceil(std::min(count, kMostMilliseconds))));
}

std::optional<milliseconds> asked_for(const FailedAttempt& attempt, system_clock::time_point now) {
  if (const auto number = parse_number(header(attempt, "retry-after-ms"))) {
    if (const auto delay = positive(*number)) return delay;
  }
  const auto text = header(attempt, "retry-after");
  if (const auto number = parse_number(text)) return positive(*number * 1000);
  if (const auto date = parse_http_date(text)) {
    return positive(std::chrono::duration<double, std::milli>(*date - now).count());
  }
  return std::nullopt;
}

bool may_pass(const FailedAttempt& attempt) {
  const auto said = header(attempt, "x-should-retry");
  if (said == "true") return true;
  if (said == "false") return false;
  const unsigned status = attempt.status;
  return status == 0 || status == 408 || status == 409 || status == 429 || status >= 500;
}

}  // namespace

unsigned status_of_stream_error(std::string_view type) {
  if (type == "overloaded_error") return 529;
  if (type == "rate_limit_error" || type == "rate_limit_exceeded") return 429;
  if (type == "timeout_error") return 504;
  if (type == "api_error" || type == "server_error" || type == "internal_server_error") return 500;
  return 400;
}

std::optional<milliseconds> retry_delay(const FailedAttempt& attempt, unsigned retries_done, const RetryPolicy& policy,
                                        double jitter, system_clock::time_point now) {
  if (retries_done >= policy.most_retries || !may_pass(attempt)) return std::nullopt;
  if (const auto delay = asked_for(attempt, now)) {
    if (*delay > policy.longest_asked_for) return std::nullopt;
    return delay;
  }
  const milliseconds doubled = policy.first_delay * (1LL << std::min(retries_done, 16U));
  const double full = static_cast<double>(std::min(doubled, policy.longest_delay).count());
  return milliseconds(std::llround(full * (1 - kMostJitter * std::clamp(jitter, 0.0, 1.0))));
}

std::optional<system_clock::time_point> parse_http_date(std::string_view text) {
  constexpr std::array<std::string_view, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  constexpr std::string_view kForm = "Sun, 06 Nov 1994 08:49:37 GMT";
  if (text.size() != kForm.size() || !text.ends_with(" GMT") || text.substr(3, 2) != ", ") return std::nullopt;
  const auto number = [text](std::size_t at, std::size_t length) {
    int value = -1;
    const char* const begin = text.data() + at;
    const auto [end, failed] = std::from_chars(begin, begin + length, value);
    return failed == std::errc{} && end == begin + length ? value : -1;
  };
  const auto month = std::ranges::find(kMonths, text.substr(8, 3));
  const int day = number(5, 2), year = number(12, 4), hour = number(17, 2), minute = number(20, 2),
            second = number(23, 2);
  if (month == kMonths.end() || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60) {
    return std::nullopt;
  }
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month - kMonths.begin()) + 1),
                                         std::chrono::day(static_cast<unsigned>(std::max(day, 0)))};
  if (year < 1970 || !date.ok()) return std::nullopt;
  return std::chrono::sys_days(date) + std::chrono::hours(hour) + std::chrono::minutes(minute) +
         std::chrono::seconds(second);
}

}  // namespace hutch::agent
