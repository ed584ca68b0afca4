#include "api/event_writer.h"

#include <fmt/format.h>

#include <charconv>

#include "api/run_json.h"

namespace hutch {
namespace {

constexpr auto kSilence = std::chrono::seconds(15);
constexpr auto kLook = std::chrono::seconds(2);  // at whether the key still counts
constexpr std::size_t kMostAtOnce = 256U << 10;

std::string framed(std::string_view name, std::uint64_t number, std::string_view text, Accepts format) {
  if (format == Accepts::ndjson) return std::string(text) + "\n";
  return fmt::format("id: {}\nevent: {}\ndata: {}\n\n", number, name, text);
}

}  // namespace

std::string gap_text(std::uint64_t from, std::uint64_t to) {
  return fmt::format(R"({{"seq":{},"type":"gap","run":null,"time_ms":0,"from":{},"to":{}}})", to, from, to);
}

net::awaitable<void> write_events(HttpExchange& exchange, [[maybe_unused]] std::shared_ptr<void> owner,
                                  EventStream& stream, std::uint64_t after, Accepts format) {
  const bool lines = format == Accepts::ndjson;
  if (!co_await exchange.begin({.content_type = lines ? "application/x-ndjson" : "text/event-stream"}, std::nullopt)) {
    co_return;
  }
  if (exchange.request().method == Method::head) co_return;
  after = std::min(after, stream.last());
  auto next_look = Clock::now() + kLook;
  auto last_word = Clock::now();
  for (;;) {
    if (Clock::now() >= next_look) {
      if (!exchange.still_allowed()) break;
      next_look = Clock::now() + kLook;
    }
    std::string batch;
    if (stream.first() > after + 1) {
      batch += framed("gap", stream.first() - 1, gap_text(after + 1, stream.first() - 1), format);
      after = stream.first() - 1;
    }
    while (after < stream.last() && batch.size() < kMostAtOnce) {
      const StreamEvent& event = stream.at(++after);
      batch += framed(event_name(event), event.number, event_text(event, stream.began()), format);
    }
    if (batch.empty() && stream.closed()) break;
    if (batch.empty()) {
      co_await stream.wait_beyond(after, next_look);
      if (stream.last() > after || stream.closed() || Clock::now() < last_word + kSilence) continue;
      batch = lines ? "\n" : ": still here\n\n";
    }
    last_word = Clock::now();
    if (!co_await exchange.write(batch)) co_return;
  }
  co_await exchange.end();
}

Api<std::uint64_t> resume_point(const Request& request) {
  const std::string_view id = request.exchange.request().header("last-event-id");
  std::uint64_t after = 0;
  if (!id.empty() && request.find("after") == nullptr) {
    const auto [at, problem] = std::from_chars(id.data(), id.data() + id.size(), after);
    if (problem != std::errc{} || at != id.data() + id.size()) {
      return std::unexpected(bad_request("Last-Event-ID must be the number of an event"));
    }
    return after;
  }
  return request.number("after", 0, ~0ULL >> 1);
}

}  // namespace hutch
