// Tools over HTTP: their definitions in every format, and calls in every dialect.
#include <boost/json.hpp>

#include "api/json_fields.h"
#include "api/json_text.h"
#include "api/routes.h"
#include "api/tools/definitions.h"
#include "api/tools/dialect.h"

namespace hutch {
namespace {

namespace json = boost::json;

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at <= list.size() && !list.empty();) {
    const std::size_t comma = std::min(list.find(',', at), list.size());
    names.push_back(list.substr(at, comma - at));
    at = comma + 1;
  }
  return names;
}

// The body itself is gone before the tool works.
net::awaitable<Api<CallAsked>> read_tool_call(Request& request) {
  HUTCH_API_TRY(const auto body, co_await read_json(request.exchange, request.daemon.settings.most_body));
  co_return read_call(body);
}

}  // namespace

net::awaitable<Handled> list_tools(Request& request) {
  HUTCH_API_CHECK(request.only({"format", "names"}));
  const auto* format = request.find("format");
  const auto parsed = parse_tool_format(format != nullptr ? *format : "anthropic");
  if (!parsed) co_return std::unexpected(bad_request("format must be " + std::string(kToolFormats)));
  const auto* names = request.find("names");
  HUTCH_API_TRY(const auto chosen, choose_tools(request.daemon.tools, split(names != nullptr ? *names : "all")));
  co_await request.exchange.answer({.body = json_text(json::object{{"tools", definitions_of(chosen, *parsed)}})});
  co_return Handled{};
}

net::awaitable<Handled> post_tool_call(Request& request) {
  Daemon& daemon = request.daemon;
  HUTCH_API_CHECK(request.only({}));
  HUTCH_API_TRY(const auto asked, co_await read_tool_call(request));
  const Tool* tool = daemon.tools.find(asked.name);
  if (tool == nullptr) {  // a model invents names: it is told, and the conversation goes on
    const auto unknown = choose_tools(daemon.tools, {asked.name});
    co_await request.exchange.answer({.body = json_text(render_result(asked, failed_result(unknown.error())))});
    co_return Handled{};
  }
  ToolCall call{.daemon = daemon, .caller = request.caller, .arguments = asked.arguments};
  // The caller's word counts more than the model's.
  const bool takes_session = tool->input_schema.at("properties").as_object().contains("session_id");
  if (!asked.session_id.empty() && takes_session) call.arguments["session_id"] = asked.session_id;
  ToolResult result = co_await call_tool(*tool, call);
  if (result.error && result.error->category == "session_not_found" && !asked.session_id.empty()) {
    ApiError error = *result.error;  // the model cannot do without what its caller has named
    error.hint = "Whoever passed this call on must name another session, or \"new\".";
    result = failed_result(error);
  }
  json::object answer = render_result(asked, result);
  const auto* session = result.structured.if_contains("session_id");
  if (!asked.session_id.empty() && session != nullptr && session->is_string()) answer["session_id"] = *session;
  // A call gets its answer in its own dialect, also when the tool refuses: a conversation cannot go on without one.
  co_await request.exchange.answer({.body = json_text(answer)});
  co_return Handled{};
}

}  // namespace hutch
