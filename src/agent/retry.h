// Whether a failed request to a model server is made again, and when. The rules of the vendors' own libraries.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace hutch::agent {

struct RetryPolicy {
  unsigned most_retries = 2;
  std::chrono::milliseconds first_delay{500};  // doubled each time
  std::chrono::milliseconds longest_delay{8000};
  std::chrono::milliseconds longest_asked_for =
      std::chrono::minutes(2);  // a server that asks for more has its way: we give up
};

struct FailedAttempt {
  unsigned status = 0;                         // 0: the connection failed, or no answer came in time
  std::map<std::string, std::string> headers;  // names in lower case
};

// How an error inside a stream would have been answered, had it come in time. 400 for what will not pass.
unsigned status_of_stream_error(std::string_view type);

// When to try again after the retry number `retries_done`; nothing: not at all. `jitter` is between 0 and 1, and `now`
// is what dates are compared with.
std::optional<std::chrono::milliseconds> retry_delay(const FailedAttempt& attempt, unsigned retries_done,
                                                     const RetryPolicy& policy, double jitter,
                                                     std::chrono::system_clock::time_point now);

// "Sun, 06 Nov 1994 08:49:37 GMT", the one form of a date that servers may send.
std::optional<std::chrono::system_clock::time_point> parse_http_date(std::string_view text);

}  // namespace hutch::agent
