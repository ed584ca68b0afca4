// A session over a WebSocket: runs, interrupts and input go in, every event of the session comes out.
#include <boost/asio/detached.hpp>
#include <boost/json.hpp>

#include "api/event_writer.h"
#include "api/json_text.h"
#include "api/run_json.h"
#include "api/run_request.h"
#include "api/session_access.h"
#include "api/tool_results.h"

namespace hutch {
namespace {

namespace json = boost::json;

constexpr auto kLook = std::chrono::seconds(2);  // at whether the key still counts
constexpr std::size_t kMostValues = 50'000;      // of a message; whoever has more to say sends a body, which is counted
constexpr std::size_t kDeepestMessage = 32;
constexpr const char* kRevoked = "the key was revoked or rotated";

// Shared by the two directions; whichever ends first ends the other.
struct Attached {
  std::unique_ptr<WebSocket> socket;
  std::shared_ptr<Session> session;
  std::function<bool()> still_known;  // the key
  bool over = false;
};

std::string refusal(const Request& request, const json::value& id, const ApiError& error) {
  boost::system::error_code failed;
  auto body = json::parse(to_answer(error, request.exchange.request_id).body, failed);
  json::object message = body.is_object() ? std::move(body.get_object()) : json::object{};
  message["type"] = "error";
  message["id"] = id;
  return json_text(message);
}

net::awaitable<void> tell_events(std::shared_ptr<Attached> attached, std::uint64_t after) {
  EventStream& stream = attached->session->events();
  after = std::min(after, stream.last());
  auto next_look = Clock::now() + kLook;
  while (!attached->over) {
    if (Clock::now() >= next_look) {
      if (!attached->still_known()) {
        co_await attached->socket->refuse(kRevoked);
        break;
      }
      next_look = Clock::now() + kLook;
    }
    if (stream.first() > after + 1) {
      const std::uint64_t from = std::exchange(after, stream.first() - 1) + 1;  // more may go while this is sent
      if (!co_await attached->socket->send(gap_text(from, after))) break;
      continue;
    }
    if (after < stream.last()) {
      if (!co_await attached->socket->send(event_text(stream.at(++after), stream.began()))) break;
      continue;
    }
    if (stream.closed()) break;
    co_await stream.wait_beyond(after, next_look);
  }
  attached->over = true;
  attached->socket->close();
}

Handled take_tool_result(Request& request, Session& session, json::object message) {
  std::string run_id;
  if (const auto* field = message.if_contains("run"); field != nullptr && field->is_string()) {
    run_id = std::string(field->get_string());
  }
  for (const char* name : {"type", "id", "run"}) message.erase(name);
  const auto run = request.daemon.hub.find_run(run_id, request.caller.key.id);
  if (!run || run->identity().session_id != session.settings().id) return std::unexpected(run_missing());
  std::vector<ToolAnswer> answers;
  if (auto read = read_tool_answer(message, answers); !read) return read;
  return give_tool_answers(*run, std::move(answers));
}

// What the client is told at once; nothing when there is nothing to say.
std::optional<std::string> obey(Request& request, Session& session, const json::object& message) {
  const auto* id_field = message.if_contains("id");
  const json::value id = id_field != nullptr ? *id_field : json::value(nullptr);
  const auto* type_field = message.if_contains("type");
  const std::string type =
      type_field != nullptr && type_field->is_string() ? std::string(type_field->get_string()) : "";
  if (type == "ping") return json_text(json::object{{"type", "pong"}, {"id", id}});
  if (type == "interrupt") {
    session.interrupt();
    return std::nullopt;
  }
  if (type == "resize") return std::nullopt;  // there is no terminal in a sandbox; programs ask the environment
  if (type == "stdin") {
    const auto* text = message.if_contains("text");
    if (text == nullptr || !text->is_string()) return refusal(request, id, bad_request("stdin needs a text"));
    if (auto given = session.give_input(std::string_view(text->get_string())); !given) {
      return refusal(request, id, bad_request(given.error().message, given.error().hint, "not_reading"));
    }
    return std::nullopt;
  }
  if (type == "tool_result") {
    auto taken = take_tool_result(request, session, message);
    return taken ? std::nullopt : std::optional(refusal(request, id, taken.error()));
  }
  if (type != "run") return refusal(request, id, bad_request("unknown message type"));
  json::object body = message;
  body.erase("type");
  body.erase("id");
  auto asked = read_cell(body, request.daemon.settings);
  if (!asked) return refusal(request, id, asked.error());
  if (auto allowed = request.daemon.may_run(request.caller); !allowed) return refusal(request, id, allowed.error());
  asked->task.request_id = request.exchange.request_id;
  auto run = request.daemon.hub.run_in(session, std::move(asked->task));
  if (!run) return refusal(request, id, from_error(run.error()));
  return json_text(json::object{{"type", "accepted"}, {"id", id}, {"run", (*run)->identity().id}});
}

// The same for the text as it came. Nothing of that is left when the client is told, who may take long to hear it.
std::optional<std::string> obey_text(Request& request, Session& session, std::string text) {
  if (count_json_values(text) > kMostValues) {
    const std::string most = std::to_string(kMostValues);
    return refusal(request, nullptr, bad_request("A message has at most " + most + " values.", {}, "too_large"));
  }
  boost::system::error_code failed;
  json::parse_options options;
  options.max_depth = kDeepestMessage;
  const auto message = json::parse(text, failed, {}, options);
  if (failed || !message.is_object()) {
    return refusal(request, nullptr, bad_request("A message must be a JSON object.", {}, "bad_json"));
  }
  return obey(request, session, message.get_object());
}

}  // namespace

net::awaitable<Handled> attach_session(Request& request) {
  HUTCH_API_CHECK(request.only({"after"}));
  HUTCH_API_TRY(auto session, find_session(request));
  HUTCH_API_TRY(const auto asked, request.number("after", ~0ULL >> 1, ~0ULL >> 1));
  if (!request.exchange.request().wants_websocket) {
    co_return std::unexpected(bad_request("This address speaks WebSocket.", "Send Upgrade: websocket."));
  }
  auto attached = std::make_shared<Attached>();
  attached->session = std::move(session);
  attached->still_known = request.exchange.still_known;
  attached->socket = co_await request.exchange.upgrade();
  if (!attached->socket) co_return Handled{};
  net::co_spawn(request.daemon.engine.executor(), tell_events(attached, asked), net::detached);
  while (!attached->over) {
    auto text = co_await attached->socket->receive();
    if (!text) break;
    if (!attached->still_known()) {
      co_await attached->socket->refuse(kRevoked);
      break;
    }
    attached->session->touch();
    auto reply = obey_text(request, *attached->session, std::move(*text));
    if (reply && !co_await attached->socket->send(std::move(*reply))) break;
  }
  attached->over = true;
  attached->socket->close();  // an event that nobody reads must not keep it: its place is free from here on
  attached->session->events().wake();
  co_return Handled{};
}

}  // namespace hutch
