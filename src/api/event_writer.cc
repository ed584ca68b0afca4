#include "api/event_writer.h"

#include <fmt/format.h>

#include <charconv>

#include "api/run_json.h"

namespace hutch {
namespace {

constexpr auto kSilence = std::chrono::seconds(15);
constexpr auto kLook = std::chrono::seconds(2);  // at whether the key still counts
constexpr std::size_t kMostAtOnce = 256U << 10;
constexpr std::size_t kLarge = 64U << 10;

// What comes before an event's text, and after it.
std::string head_of(std::string_view name, std::uint64_t number, Accepts format) {
  return format == Accepts::ndjson ? "" : fmt::format("id: {}\nevent: {}\ndata: ", number, name);
}
std::string_view tail_of(Accepts format) { return format == Accepts::ndjson ? "\n" : "\n\n"; }

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
    std::shared_ptr<const std::string> large;  // the last of the batch: shared with others, so not copied
    if (stream.first() > after + 1) {
      batch += head_of("gap", stream.first() - 1, format);
      batch += gap_text(after + 1, stream.first() - 1);
      batch += tail_of(format);
      after = stream.first() - 1;
    }
    while (after < stream.last() && batch.size() < kMostAtOnce && !large) {
      const StreamEvent& event = stream.at(++after);
      auto text = event_text(event, stream.began());
      batch += head_of(event_name(event), event.number, format);
      if (text->size() > kLarge) {
        large = std::move(text);
      } else {
        batch += *text;
        batch += tail_of(format);
      }
    }
    const bool nothing = batch.empty() && !large;
    if (nothing && stream.closed()) break;
    if (nothing) {
      co_await stream.wait_beyond(after, next_look);
      if (stream.last() > after || stream.closed() || Clock::now() < last_word + kSilence) continue;
      batch = lines ? "\n" : ": still here\n\n";
    }
    last_word = Clock::now();
    if (!co_await exchange.write(batch)) co_return;
    if (large && !(co_await exchange.write(*large) && co_await exchange.write(tail_of(format)))) co_return;
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
