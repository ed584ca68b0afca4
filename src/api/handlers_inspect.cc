// Questions about the state of a session: what could be typed here, what is this, which variables are there. The
// answers are the sandbox's own words: they are parsed, and only the fields that are documented are passed on.
#include <boost/json.hpp>

#include "api/json_text.h"
#include "api/run_request.h"
#include "api/session_access.h"
#include "base/log.h"
#include "base/utf8.h"

namespace hutch {
namespace {

namespace json = boost::json;

constexpr std::size_t kMostDepth = 16;
constexpr std::size_t kMostCode = 256U << 10;

ApiError busy(const Error& error) {
  return {.status = 409,
          .category = "session_busy",
          .code = "not_idle",
          .message = "The session cannot be asked now: " + error.message + ".",
          .hint = "Ask again when its run has finished; `state` of the session tells.",
          .retry_after = std::chrono::seconds(1)};
}

ApiError no_answer(std::string_view message) {
  return {.status = 422,
          .category = "python_error",
          .code = "no_answer",
          .message = "The interpreter could not answer: " + std::string(message) + ".",
          .hint = "An object of the program may be to blame; the session goes on."};
}

// For an interpreter. The engine says when to try again; one that is there and does something else does not know.
bool is_no_room(const Error& error) { return error.code == ErrorCode::limit && !error.hint.empty(); }

ApiError not_asked(const Request& request, const Session& session, const Error& error) {
  if (session.state() == SessionState::ended) return session_over(request.daemon);
  if (is_no_room(error)) return from_error(error);
  if (error.code == ErrorCode::limit || error.code == ErrorCode::disconnected) return busy(error);
  if (error.code == ErrorCode::timed_out) return no_answer("it took too long");
  log::error("session could not be asked",
             {{"request", request.exchange.request_id}, {"session", session.settings().id}, {"error", error.message}});
  return from_error(error);
}

net::awaitable<Api<json::object>> ask(Request& request, wire::Ask question) {
  HUTCH_API_TRY(const auto session, find_session(request));
  HUTCH_API_CHECK(request.daemon.may_spend(request.caller));  // objects of the program answer
  const auto answer = co_await session->ask(std::move(question));
  if (!answer) co_return std::unexpected(not_asked(request, *session, answer.error()));
  json::parse_options options;
  options.max_depth = kMostDepth;
  boost::system::error_code failed;
  json::value value = json::parse(clean_utf8(*answer), failed, {}, options);
  if (failed || !value.is_object()) co_return std::unexpected(no_answer("it talks nonsense"));
  auto& object = value.get_object();
  if (const auto* error = object.if_contains("error")) {
    co_return std::unexpected(no_answer(error->is_string() ? std::string_view(error->get_string()) : "unknown"));
  }
  co_return std::move(object);
}

// Of the type that is promised, or null.
json::value text_of(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? *value : json::value(nullptr);
}
json::value number_of(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value != nullptr && value->is_int64() && value->get_int64() >= 0 ? *value : json::value(nullptr);
}
bool flag_of(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value != nullptr && value->is_bool() && value->get_bool();
}
json::object only(const json::object& from, std::initializer_list<std::string_view> texts,
                  std::initializer_list<std::string_view> numbers = {}) {
  json::object result;
  for (const auto name : texts) result[name] = text_of(from, name);
  for (const auto name : numbers) result[name] = number_of(from, name);
  return result;
}
json::array each(const json::object& from, std::string_view list, std::initializer_list<std::string_view> texts,
                 std::initializer_list<std::string_view> numbers) {
  json::array result;
  const auto* items = from.if_contains(list);
  if (items == nullptr || !items->is_array()) return result;
  for (const auto& item : items->get_array()) {
    if (item.is_object()) result.push_back(only(item.get_object(), texts, numbers));
  }
  return result;
}

struct Place {
  std::string code;
  std::uint64_t cursor = 0;
  std::uint64_t detail = 0;
};

net::awaitable<Api<Place>> read_place(Request& request) {
  HUTCH_API_CHECK(request.only({}));
  HUTCH_API_TRY(const auto body, co_await read_json(request.exchange, 2 * kMostCode));
  JsonFields fields(body, "");
  Place place;
  if (!fields.text("code", place.code, kMostCode)) fields.refuse("code is missing");
  place.cursor = ~0U;
  fields.integer("cursor", place.cursor, 0, kMostCode);
  fields.integer("detail", place.detail, 0, 1);
  HUTCH_API_CHECK(fields.finish());
  co_return place;
}

wire::Ask question_at(wire::AskKind what, Place place) {
  return {.what = what,
          .code = std::move(place.code),
          .cursor = static_cast<std::uint32_t>(place.cursor),
          .detail = static_cast<std::uint32_t>(place.detail)};
}

}  // namespace

net::awaitable<Handled> complete_code(Request& request) {
  HUTCH_API_TRY(auto place, co_await read_place(request));
  HUTCH_API_TRY(const auto told, co_await ask(request, question_at(wire::AskKind::complete, std::move(place))));
  json::object answer = only(told, {}, {"cursor_start", "cursor_end"});
  answer["matches"] = each(told, "matches", {"text", "type"}, {"start", "end"});
  co_await request.exchange.answer({.body = json_text(answer)});
  co_return Handled{};
}

net::awaitable<Handled> inspect_code(Request& request) {
  HUTCH_API_TRY(auto place, co_await read_place(request));
  HUTCH_API_TRY(const auto told, co_await ask(request, question_at(wire::AskKind::inspect, std::move(place))));
  json::object answer = only(told, {"name", "type", "signature", "documentation", "source", "value"});
  answer["found"] = flag_of(told, "found");
  co_await request.exchange.answer({.body = json_text(answer)});
  co_return Handled{};
}

net::awaitable<Handled> list_variables(Request& request) {
  HUTCH_API_CHECK(request.only({}));
  HUTCH_API_TRY(const auto told, co_await ask(request, {.what = wire::AskKind::variables}));
  json::object answer{{"variables", each(told, "variables", {"name", "type", "summary"}, {"size"})},
                      {"more", flag_of(told, "more")}};
  co_await request.exchange.answer({.body = json_text(answer)});
  co_return Handled{};
}

net::awaitable<Handled> show_variable(Request& request) {
  HUTCH_API_CHECK(request.only({"rows"}));
  HUTCH_API_TRY(const auto rows, request.number("rows", 0, 1'000));
  HUTCH_API_TRY(const auto told, co_await ask(request, {.what = wire::AskKind::preview,
                                                        .name = request.parameters[1],
                                                        .detail = static_cast<std::uint32_t>(rows)}));
  if (!flag_of(told, "found")) {
    co_return std::unexpected(ApiError{.status = 404,
                                       .category = "file_not_found",
                                       .code = "no_variable",
                                       .message = "The session has no variable of this name.",
                                       .hint = "GET /v1/sessions/{session}/variables lists them."});
  }
  json::object answer = only(told, {"name", "type", "summary"});
  const auto* mime = told.if_contains("mime");
  json::object shown;
  if (mime != nullptr && mime->is_object()) {
    for (const std::string_view name : {"text/plain", "text/html"}) {
      if (mime->get_object().contains(name)) shown[name] = text_of(mime->get_object(), name);
    }
    const auto* table = mime->get_object().if_contains("application/vnd.hutch.table+json");
    if (table != nullptr && table->is_object()) shown["application/vnd.hutch.table+json"] = *table;
  }
  answer["mime"] = std::move(shown);
  co_await request.exchange.answer({.body = json_text(answer)});
  co_return Handled{};
}

}  // namespace hutch
