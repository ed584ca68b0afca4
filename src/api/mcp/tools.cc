// tools/list and tools/call: our registry in the protocol's dialect, and what is told while code runs.
#include "api/base64.h"
#include "api/mcp/server.h"
#include "api/tools/definitions.h"
#include "api/tools/tool.h"
#include "base/utf8.h"

namespace hutch::mcp {
namespace {

constexpr auto kPatience = std::chrono::seconds(45);  // clients give up after 60
constexpr auto kBetween = std::chrono::milliseconds(100);
constexpr auto kSilence = std::chrono::seconds(3);
constexpr std::size_t kLongestLine = 200;

// Only text and pictures: several clients refuse a whole result for anything else in it.
json::object result_of(ToolResult result) {
  json::array content{json::object{{"type", "text"}, {"text", clean_utf8(result.text)}}};
  for (const auto& picture : result.pictures) {
    content.push_back(
        json::object{{"type", "image"}, {"data", base64_encode(picture.bytes)}, {"mimeType", picture.mime}});
  }
  return {{"content", std::move(content)},
          {"structuredContent", std::move(result.structured)},
          {"isError", result.is_error}};
}

// The last line that says something.
std::string last_line(std::string_view text) {
  const auto end = text.find_last_not_of(" \t\r\n");
  if (end == std::string_view::npos) return {};
  text = text.substr(0, end + 1);
  const auto begin = text.find_last_of("\r\n");
  if (begin != std::string_view::npos) text.remove_prefix(begin + 1);
  if (text.size() > kLongestLine) text = text.substr(0, complete_utf8_prefix(text.substr(0, kLongestLine)));
  return printable(text);
}

// Whether the call made the run, or only waits for it.
enum class Part : std::uint8_t { own, watched };

// Tells of one run, as long as the call lasts.
class Follower {
 public:
  Follower(Call& call, const net::any_io_executor& executor, Part part)
      : call_(call), part_(part), over_(executor), tasks_(executor) {}

  void follow(std::shared_ptr<LiveRun> run) {
    run_ = std::move(run);
    if (part_ == Part::own) {
      call_.log("info", "run " + run_->identity().id + " started");
      call_.cancellation->on_cancel([this] {
        if (run_->cancel) run_->cancel();
      });
    }
    if (call_.meta.progress_token) tasks_.spawn(tell(run_));
  }
  // Nothing is told after this.
  net::awaitable<void> end() {
    call_.cancellation->on_cancel(nullptr);
    over_.set();
    if (run_) run_->events().wake();
    co_await tasks_.join();
    if (!run_ || part_ == Part::watched) co_return;
    const bool finished = run_->stage() == RunStage::finished;
    call_.log("info", "run " + run_->identity().id + (finished ? " finished" : " goes on"));
  }

 private:
  // Until the call is over, or there is another run to tell of.
  net::awaitable<void> tell(std::shared_ptr<LiveRun> run) {
    EventStream& events = run->events();
    std::uint64_t seen = 0;
    while (!over_.is_set() && run == run_) {
      std::string line;
      for (seen = std::max(seen, events.first() - 1); seen < events.last();) {
        const StreamEvent& event = events.at(++seen);
        if (event.type != EventType::output) continue;
        if (auto text = last_line(event.text); !text.empty()) line = std::move(text);
      }
      const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin_).count();
      const double seconds = static_cast<double>(ms) / 1000;
      if (line.empty()) line = "running, " + std::to_string(ms / 1000) + " s";
      if (seconds > told_) {
        call_.notify(notification(
            "notifications/progress",
            {{"progressToken", *call_.meta.progress_token}, {"progress", seconds}, {"message", std::move(line)}}));
        told_ = seconds;
      }
      if (events.closed()) co_return;
      if (co_await over_.wait_until(Clock::now() + kBetween)) co_return;
      co_await events.wait_beyond(seen, Clock::now() + kSilence);
      if (events.closed() && events.last() <= seen) co_return;
    }
  }

  Call& call_;
  Part part_;
  std::shared_ptr<LiveRun> run_;
  Clock::time_point begin_ = Clock::now();
  double told_ = -1;  // seconds; each must be more than the last
  Event over_;
  TaskGroup tasks_;
};

}  // namespace

json::array tool_definitions(const Server& server, const Caller& caller) {
  json::array definitions;
  for (const auto& tool : server.daemon().tools.all()) {
    if (server.offers(tool, caller)) definitions.push_back(definition_of(tool, ToolFormat::mcp));
  }
  return definitions;
}

net::awaitable<Reply> call_tool(Server& server, const json::object& params, Call& call) {
  const auto name = find_text(params, "name");
  if (!name) co_return refuse(kInvalidParams, "Invalid params: name must be a string");
  const Tool* tool = server.daemon().tools.find(*name);
  if (tool == nullptr || !server.offers(*tool, call.caller)) {
    co_return refuse(kInvalidParams, "Unknown tool: " + printable(name->substr(0, 100)));
  }
  json::object arguments;
  if (const auto* given = params.if_contains("arguments"); given != nullptr && !given->is_null()) {
    if (!given->is_object()) co_return refuse(kInvalidParams, "Invalid params: arguments must be an object");
    arguments = given->get_object();
  }
  Follower follower(call, server.daemon().engine.executor(), tool->runs_code ? Part::own : Part::watched);
  ToolCall what{.daemon = server.daemon(),
                .caller = call.caller,
                .arguments = std::move(arguments),
                .without_session = WithoutSession::new_session,
                .patience = kPatience,
                .on_run = [&follower](const std::shared_ptr<LiveRun>& run) { follower.follow(run); }};
  ToolResult result = co_await hutch::call_tool(*tool, what);
  co_await follower.end();
  co_return result_of(std::move(result));
}

}  // namespace hutch::mcp
