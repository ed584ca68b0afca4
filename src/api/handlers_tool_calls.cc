// Results for the calls that code makes to tools of its client.
#include "api/json_fields.h"
#include "api/json_text.h"
#include "api/routes.h"
#include "api/tool_results.h"

namespace hutch {
namespace {

namespace json = boost::json;

constexpr HostCallCaps kCaps;
constexpr std::size_t kLongestCallId = 32;

ApiError not_pending(const std::vector<std::string>& ids, std::size_t accepted) {
  std::string list;
  for (const auto& id : ids) list += (list.empty() ? "" : ", ") + id;
  std::string message = "Not pending: " + list + ".";
  if (accepted > 0) message += " The others (" + std::to_string(accepted) + ") were accepted.";
  return {.status = 409,
          .category = "invalid_request",
          .code = "call_not_pending",
          .message = std::move(message),
          .hint =
              "A call is over when it was answered, was too late or was cancelled; pending_tool_calls of the run "
              "lists those that wait."};
}

}  // namespace

Handled read_tool_answer(const json::object& object, std::vector<ToolAnswer>& into) {
  JsonFields fields(object, "");
  ToolAnswer answer;
  if (!fields.text("call_id", answer.call_id, kLongestCallId)) fields.refuse("call_id is missing");
  fields.boolean("is_error", answer.is_error);
  const auto* content = fields.value("content");
  if (content == nullptr) {
    fields.refuse("content is missing");
  } else {
    answer.text = content->is_string() ? std::string(content->get_string()) : json_text(*content);
    if (answer.text.size() > kCaps.result.count) fields.refuse("content must have at most 4 MiB");
  }
  if (auto done = fields.finish(); !done) return done;
  into.push_back(std::move(answer));
  return {};
}

Handled give_tool_answers(LiveRun& run, std::vector<ToolAnswer> answers) {
  std::vector<std::string> refused;
  std::size_t accepted = 0;
  for (auto& answer : answers) {
    const auto given = run.answer_tool_call(answer.call_id, !answer.is_error, std::move(answer.text));
    if (given) {
      ++accepted;
    } else if (given.error().code == ErrorCode::limit) {
      return std::unexpected(ApiError{.status = 409,
                                      .category = "session_busy",
                                      .code = "not_reading",
                                      .message = given.error().message + " (" + answer.call_id + ")",
                                      .hint = given.error().hint});
    } else {
      refused.push_back(std::move(answer.call_id));
    }
  }
  if (!refused.empty()) return std::unexpected(not_pending(refused, accepted));
  return {};
}

net::awaitable<Handled> post_tool_results(Request& request) {
  Daemon& daemon = request.daemon;
  HUTCH_API_CHECK(request.only({}));
  HUTCH_API_TRY(const auto body, co_await read_json(request.exchange, daemon.settings.most_body));
  JsonFields fields(body, "");
  const auto* results = fields.array("results", kCaps.pending);
  if (results == nullptr) fields.refuse("results is missing");
  HUTCH_API_CHECK(fields.finish());
  std::vector<ToolAnswer> answers;
  for (const auto& result : *results) {
    if (!result.is_object()) co_return std::unexpected(bad_request("every entry of results must be an object"));
    HUTCH_API_CHECK(read_tool_answer(result.get_object(), answers));
  }
  const std::size_t count = answers.size();
  if (const auto run = daemon.hub.find_run(request.parameters[0], request.caller.key.id)) {
    HUTCH_API_CHECK(give_tool_answers(*run, std::move(answers)));
  } else {
    const auto stored = daemon.stores.runs.get(request.parameters[0], request.caller.key.id);
    if (!stored || !*stored) co_return std::unexpected(run_missing());
    std::vector<std::string> late;
    for (auto& answer : answers) late.push_back(std::move(answer.call_id));
    if (!late.empty()) co_return std::unexpected(not_pending(late, 0));
  }
  co_await request.exchange.answer({.body = json_text(json::object{{"accepted", count}})});
  co_return Handled{};
}

}  // namespace hutch
