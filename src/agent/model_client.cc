#include "agent/model_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "agent/json_reading.h"
#include "base/utf8.h"

namespace hutch::agent {
namespace {

namespace json = boost::json;

constexpr std::size_t kMostErrorText = 500;

// {"error": {"type", "message"}} from both families, {"error": "text"} from some.
StreamError read_error_body(std::string_view body) {
  StreamError error;
  const auto parsed = parse_object(body);
  if (!parsed) return error;
  error.message = find_text(*parsed, "error");
  if (const json::object* inner = find_object(*parsed, "error")) {
    error = {.type = std::string(find_text(*inner, "type")), .message = std::string(find_text(*inner, "message"))};
  }
  return error;
}

std::string hint_for(unsigned status) {
  switch (status) {
    case 400:
      return "check the name of the model and what it accepts";
    case 401:
    case 403:
      return "check the key";
    case 402:
      return "check the account's balance";
    case 404:
      return "check the base URL and the name of the model";
    case 413:
      return "give less data to the model, and more to the code";
    case 429:
      return "wait, or check the account's limits";
    default:
      return status >= 500 ? "try again later" : "check the base URL";
  }
}

double random_fraction() { return static_cast<double>(::arc4random_uniform(1001)) / 1000.0; }

}  // namespace

Result<ModelClient> ModelClient::make(ModelTransport& transport, const ModelDialect& dialect, Secret key,
                                      RetryPolicy policy) {
  const std::string& text = key.reveal();
  if (text.empty() || !std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; })) {
    return make_error(ErrorCode::invalid_argument, "the key of the model server is empty or has characters no key has")
        .with_hint("a key is one line without spaces");
  }
  return ModelClient(transport, dialect, std::move(key), policy);
}

net::awaitable<Result<Turn>> ModelClient::ask(json::object body, ModelListener& listener, Cancellation& cancellation) {
  const ModelRequest request{
      .path = std::string(dialect_.path()), .headers = dialect_.headers(key_), .body = json::serialize(body)};
  body.clear();
  for (unsigned retries = 0;; ++retries) {
    Attempt attempt = co_await try_once(request, listener, cancellation);
    if (attempt.turn || cancellation.is_cancelled() || !attempt.may_retry) co_return std::move(attempt.turn);
    const auto delay =
        retry_delay(attempt.failure, retries, policy_, random_fraction(), std::chrono::system_clock::now());
    if (!delay) co_return std::move(attempt.turn);
    listener.retrying({.number = retries + 1, .delay = *delay, .reason = attempt.turn.error().message});
    co_await rest(*delay, cancellation);
    if (cancellation.is_cancelled()) co_return std::move(attempt.turn);
  }
}

// Nothing of an answer is acted on before all of it is there, so that one which breaks off can be asked for again.
net::awaitable<ModelClient::Attempt> ModelClient::try_once(const ModelRequest& request, ModelListener& listener,
                                                           Cancellation& cancellation) {
  SseDecoder decoder;
  const auto reader = dialect_.reader();
  const PieceTaker take = [&](std::string_view piece) -> Result<bool> {
    HUTCH_TRY(const auto events, decoder.feed(piece));
    for (const SseEvent& event : events) HUTCH_TRY(reader->feed(event, listener));
    return reader->is_finished();
  };
  auto reply = co_await transport_.post(request, take, cancellation);
  if (const StreamError& said = reader->stream_error(); !said.type.empty()) {
    co_return Attempt{
        .turn = stream_failure(said), .failure = {.status = status_of_stream_error(said.type)}, .may_retry = true};
  }
  if (!reply) {
    const ErrorCode code = reply.error().code;
    auto complete = reader->take();  // a server may close without a word once everything is said
    if (complete) co_return Attempt{.turn = std::move(complete)};
    Error error = std::move(reply).error();
    error.message = presentable(error.message);
    co_return Attempt{.turn = std::move(error),
                      .may_retry = code == ErrorCode::disconnected || code == ErrorCode::timed_out};
  }
  if (!reply->streamed) {
    co_return Attempt{.turn = refusal(*reply),
                      .failure = {.status = reply->status, .headers = std::move(reply->headers)},
                      .may_retry = reply->status != 200};
  }
  auto turn = reader->take();
  const bool broke_off = !turn && turn.error().code == ErrorCode::disconnected;
  co_return Attempt{.turn = std::move(turn), .may_retry = broke_off};
}

Error ModelClient::refusal(const ModelReply& reply) const {
  if (reply.status == 200) {
    return make_error(ErrorCode::protocol, "the model server did not answer with a stream of events")
        .with_hint("check the base URL and which API the server speaks");
  }
  const StreamError said = read_error_body(reply.body);
  std::string message = fmt::format("the model server answered {}", reply.status);
  if (!said.type.empty()) message += " " + presentable(said.type);
  if (!said.message.empty()) message += ": " + presentable(said.message);
  return make_error(reply.status >= 500 ? ErrorCode::disconnected : ErrorCode::invalid_argument, std::move(message))
      .with_hint(hint_for(reply.status));
}

Error ModelClient::stream_failure(const StreamError& said) const {
  std::string message = "the model server gave up in the middle of its answer: " + presentable(said.type);
  if (!said.message.empty()) message += ": " + presentable(said.message);
  return make_error(ErrorCode::disconnected, std::move(message)).with_hint(hint_for(status_of_stream_error(said.type)));
}

// Short, harmless on a terminal, and without the key, which a server may repeat.
std::string ModelClient::presentable(std::string_view text) const {
  std::string result(text);
  for (std::size_t at = 0; (at = result.find(key_.reveal(), at)) != std::string::npos;) {
    result.replace(at, key_.reveal().size(), "[key]");
    at += 5;
  }
  if (result.size() > kMostErrorText) {
    result.resize(complete_utf8_prefix(std::string_view(result).substr(0, kMostErrorText)));
  }
  return printable(result);
}

}  // namespace hutch::agent
