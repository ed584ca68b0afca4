// An agent over HTTP: a question in, and what it thinks, runs and sees as events, or the report at the end.
#include <boost/json.hpp>
#include <deque>

#include "api/agent_run.h"
#include "api/base64.h"
#include "api/http_text.h"
#include "api/json_fields.h"
#include "api/json_text.h"
#include "api/routes.h"
#include "api/tools/place.h"
#include "base/log.h"

namespace hutch {
namespace {

namespace json = boost::json;

constexpr std::size_t kLongestQuestion = 1U << 20;
constexpr std::size_t kMostFiles = 100;
constexpr std::size_t kMostQueued = 8U << 20;  // bytes of events that nobody has read yet
constexpr auto kLook = std::chrono::milliseconds(250);
constexpr auto kKeyLook = std::chrono::seconds(1);  // at whether the key still counts
constexpr auto kStillHere = std::chrono::seconds(15);

// Puts what happens into lines, for whoever reads them.
class EventQueue final : public agent::AgentListener {
 public:
  explicit EventQueue(const net::any_io_executor& executor) : news(executor) {}

  void turn_begun(unsigned number) override { add("turn", {{"number", number}}); }
  void thinking(std::string_view piece) override { add("thinking", {{"text", piece}}); }
  void answer_text(std::string_view piece) override { add("text", {{"text", piece}}); }
  void retrying(const agent::RetryNotice& notice) override {
    add("retry", {{"number", notice.number}, {"delay_ms", notice.delay.count()}, {"reason", notice.reason}});
  }
  void tool_begun(const agent::ToolUse& use) override {
    add("tool_call", {{"id", use.id}, {"name", use.name}, {"input", use.arguments}});
  }
  void tool_ended(const agent::ToolUse& use, const agent::HandOutcome& outcome) override {
    add("tool_result", {{"id", use.id},
                        {"status", outcome.status},
                        {"is_error", outcome.is_error},
                        {"text", outcome.text},
                        {"images", outcome.images.size()}});
  }
  void add(std::string_view type, json::object event) {
    if (bytes_ >= kMostQueued) return;  // a reader that does not read misses the middle, not the end
    json::object whole{{"seq", ++last}, {"type", type}};
    for (auto& [name, value] : event) whole[name] = std::move(value);
    waiting_.push_back({.number = last, .type = std::string(type), .text = json_text(whole)});
    bytes_ += waiting_.back().text.size();
    news.set();
  }

  struct Waiting {
    std::uint64_t number = 0;
    std::string type;
    std::string text;

    [[nodiscard]] std::string in(Accepts format) const {
      if (format == Accepts::ndjson) return text + "\n";
      return "id: " + std::to_string(number) + "\nevent: " + type + "\ndata: " + text + "\n\n";
    }
  };

  [[nodiscard]] bool empty() const { return waiting_.empty(); }
  Waiting take() {
    Waiting first = std::move(waiting_.front());
    waiting_.pop_front();
    bytes_ -= first.text.size();
    return first;
  }

  Event news;
  std::uint64_t last = 0;

 private:
  std::deque<Waiting> waiting_;
  std::size_t bytes_ = 0;
};

Api<AgentAsked> read_asked(const json::object& body, ModelSettings& model) {
  AgentAsked asked;
  JsonFields fields(body, "");
  if (!fields.text("question", asked.question, kLongestQuestion) || asked.question.empty()) {
    fields.refuse("question is missing");
  }
  fields.text("model", model.model, 200);
  std::uint64_t number = 0;
  if (fields.integer("max_attempts", number, 1, 20)) asked.limits.attempts = static_cast<unsigned>(number);
  if (fields.integer("max_iterations", number, 1, 100)) asked.limits.iterations = static_cast<unsigned>(number);
  if (const auto* files = fields.array("files", kMostFiles)) {
    for (const auto& value : *files) {
      if (!value.is_object()) return std::unexpected(bad_request("every entry of files must be an object"));
      JsonFields inner(value.get_object(), "files");
      AgentFile file;
      std::string encoded;
      if (!inner.text("path", file.path, 1024)) inner.refuse("files.path is missing");
      const bool plain = inner.text("content", file.content, ~0ULL);
      const bool base64 = inner.text("content_base64", encoded, ~0ULL);
      if (plain == base64) inner.refuse("a file needs exactly one of content and content_base64");
      if (base64) {
        auto bytes = base64_decode(encoded);
        if (!bytes) inner.refuse("files.content_base64 is not base64");
        if (bytes) file.content = std::move(*bytes);
      }
      if (auto done = inner.finish(); !done) return std::unexpected(done.error());
      auto path = workspace_path(file.path);
      if (!path) return std::unexpected(bad_request("files.path: " + path.error().message, path.error().hint));
      file.path = std::move(*path);
      asked.files.push_back(std::move(file));
    }
  }
  if (auto done = fields.finish(); !done) return std::unexpected(done.error());
  return asked;
}

std::string answer_text(AgentOutcome outcome) {
  json::object answer = agent::report_json(outcome.report);
  answer["session_id"] = outcome.session_id;
  answer["transcript"] = std::move(outcome.report.transcript);
  boost::system::error_code failed;
  auto notebook = json::parse(outcome.notebook.empty() ? "null" : outcome.notebook, failed);
  answer["notebook"] = failed ? json::value(nullptr) : std::move(notebook);
  return json_text(answer);
}

ApiError not_configured() {
  return {.status = 404,
          .category = "unavailable",
          .code = "agent_not_configured",
          .message = "This daemon has no model to ask.",
          .hint = "The operator gives it one: agent.model or agent.key_file, and agent.base_url."};
}

// A key in the environment is for its owner's own questions; who answers those of every key is said in so many words.
// What is wrong with that may name files of the host: it is for the log.
Api<ModelSettings> offered_model(const Request& request) {
  const ServeSettings& settings = request.daemon.settings;
  if (settings.agent_model.empty() && settings.agent_key_file.empty()) return std::unexpected(not_configured());
  auto model = find_model(settings);
  if (model) return std::move(*model);
  log::error("no model for agents", {{"request", request.exchange.request_id}, {"error", model.error().message}});
  return std::unexpected(not_configured());
}

ApiError lost() {
  return {.message = "The daemon could not go on with the agent; its log has the reason.",
          .hint = "Report it with the request id."};
}

net::awaitable<Api<AgentAsked>> read_question(Request& request, ModelSettings& model) {
  HUTCH_API_TRY(const auto body, co_await read_json(request.exchange, request.daemon.settings.most_body));
  co_return read_asked(body, model);
}

}  // namespace

net::awaitable<Handled> post_agent(Request& request) {
  Daemon& daemon = request.daemon;
  HUTCH_API_CHECK(request.only({}));
  HUTCH_API_TRY(auto model, offered_model(request));
  HUTCH_API_TRY(auto asked, co_await read_question(request, model));
  HUTCH_API_CHECK(daemon.may_run(request.caller));
  daemon.audit(request.caller.key.id, "agent_asked", "");

  struct Work {
    EventQueue events;
    agent::Cancellation cancellation;
    std::optional<Api<AgentOutcome>> outcome;
  };
  auto work = std::make_shared<Work>(EventQueue(daemon.engine.executor()));
  net::co_spawn(
      daemon.engine.executor(),
      [](Daemon& at, Caller caller, ModelSettings how, AgentAsked what,
         std::shared_ptr<Work> shared) -> net::awaitable<void> {
        const std::string request_id = caller.request_id;
        try {
          shared->outcome = co_await run_agent(at, std::move(caller), std::move(how), std::move(what), shared->events,
                                               shared->cancellation);
        } catch (const std::exception& error) {  // whoever waits for it is to hear of an end
          log::error("agent lost", {{"request", request_id}, {"error", error.what()}});
          shared->outcome = std::unexpected(lost());
        }
        shared->events.news.set();
      }(daemon, request.caller, std::move(model), std::move(asked), work),
      net::detached);

  const auto format = parse_accept(request.exchange.request().header("accept"));
  const bool streams = format != Accepts::json;
  const bool lines = format == Accepts::ndjson;
  bool reading = !streams || co_await request.exchange.begin(
                                 {.content_type = lines ? "application/x-ndjson" : "text/event-stream"}, std::nullopt);
  auto last_word = Clock::now();
  auto next_look = Clock::now() + kKeyLook;
  while (!work->outcome || (streams && reading && !work->events.empty())) {
    if (!reading || request.exchange.client_gone() || daemon.stopping()) work->cancellation.cancel();
    if (Clock::now() >= next_look) {
      if (!request.exchange.still_allowed()) work->cancellation.cancel();
      next_look = Clock::now() + kKeyLook;
    }
    // The model is asked when the files are in the session, which are what was left of the body.
    if (work->events.last > 0) request.exchange.body_share.reset();
    if (streams && reading && !work->events.empty()) {
      reading = co_await request.exchange.write(work->events.take().in(format));
      last_word = Clock::now();
      continue;
    }
    if (streams && reading && Clock::now() - last_word > kStillHere) {
      reading = co_await request.exchange.write(lines ? "\n" : ": still here\n\n");
      last_word = Clock::now();
    }
    work->events.news.reset();
    if (!work->outcome) co_await work->events.news.wait_until(Clock::now() + kLook);
  }
  auto& outcome = *work->outcome;
  if (!streams) {
    if (!outcome) co_return std::unexpected(outcome.error());
    co_await request.exchange.answer({.body = answer_text(std::move(*outcome))});
    co_return Handled{};
  }
  const std::uint64_t number = work->events.last + 1;
  const std::string type = outcome ? "done" : "failed";
  const std::string head = R"({"seq":)" + std::to_string(number) + R"(,"type":")" + type + "\",";
  const std::string text = head + (outcome ? R"("result":)" + answer_text(std::move(*outcome)) + "}"
                                           : to_answer(outcome.error(), request.exchange.request_id).body.substr(1));
  const EventQueue::Waiting end{.number = number, .type = type, .text = text};
  if (reading) co_await request.exchange.write(end.in(format));
  co_await request.exchange.end();
  co_return Handled{};
}

}  // namespace hutch
