#include "agent/agent_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "agent/json_reading.h"
#include "base/utf8.h"

namespace hutch::agent {
namespace {

namespace json = boost::json;

constexpr std::size_t kMostCallsPerTurn = 16;
constexpr std::size_t kMostResultText = 200'000;
constexpr std::size_t kMostImages = 20;                    // servers take smaller pictures when there are more
constexpr std::size_t kMostImageBytes = 7 << 20;           // 10 MB in base64 is where servers refuse one
constexpr std::size_t kMostImageBytesTogether = 18 << 20;  // of the 32 MB that a request may have
constexpr std::array<std::string_view, 4> kImageTypes = {"image/png", "image/jpeg", "image/gif", "image/webp"};

constexpr std::string_view kCloseWords =
    "Your tools are no longer available. Give the best answer you can from what you have, and say what is missing or "
    "uncertain.";
constexpr std::string_view kContinueWords = "Your answer was cut off. Go on exactly where it stopped.";
constexpr std::string_view kCallAgainWords =
    "Your last reply was cut off before a tool call was complete, so nothing was run. Make the call again.";
constexpr std::string_view kSilentWords = "You have said nothing. State the answer in words.";

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::string shortened(std::string_view text) {
  std::string clean = clean_utf8(text);
  if (clean.size() <= kMostResultText) return clean;
  clean.resize(complete_utf8_prefix(std::string_view(clean).substr(0, kMostResultText)));
  return clean + "\n[the rest was left out]";
}

}  // namespace

AgentLoop::AgentLoop(Parts parts, std::string model, AgentLimits limits)
    : parts_(parts),
      model_(std::move(model)),
      limits_(limits),
      budget_(limits.attempts),
      tools_(parts.hands.definitions()),
      max_tokens_(limits.max_tokens) {}

net::awaitable<AgentReport> AgentLoop::run(AgentTask task) {
  const auto begin = Clock::now();
  report_.model = model_;
  system_ = system_prompt(task, limits_);
  parts_.client.dialect().add_words(messages_, clean_utf8(task.question));
  Next next = limits_.attempts == 0 ? close(StoppedBecause::attempts_exhausted) : Next::ask;
  while (next != Next::stop) {
    if (next == Next::ask && report_.iterations >= limits_.iterations) {
      next = close(StoppedBecause::iterations_exhausted);
    }
    const bool closing = next == Next::close;
    auto turn = co_await ask(closing ? ToolChoice::none : ToolChoice::automatic);
    if (parts_.cancellation.is_cancelled()) {
      next = stop(StoppedBecause::cancelled);
    } else if (!turn) {
      next = stop(StoppedBecause::model_error, {.message = turn.error().message, .hint = turn.error().hint});
    } else if (closing) {
      conclude(*turn);
      next = Next::stop;
    } else {
      next = co_await follow(std::move(*turn));
    }
  }
  report_.attempts = budget_.attempts();
  report_.failed_attempts = budget_.failed_attempts();
  report_.transcript = transcript_.take();
  report_.seconds = seconds_since(begin);
  parts_.listener.done(report_);
  co_return std::move(report_);
}

net::awaitable<Result<Turn>> AgentLoop::ask(ToolChoice choice) {
  const TurnRequest request{.model = model_,
                            .system = system_,
                            .max_tokens = max_tokens_,
                            .tools = tools_,
                            .messages = messages_,
                            .tool_choice = choice,
                            .container = container_};
  if (report_.iterations == 0) transcript_.begin(parts_.client.dialect(), request);
  if (choice == ToolChoice::automatic) ++report_.iterations;
  transcript_.add_request(request, std::exchange(words_, {}));
  parts_.listener.turn_begun(report_.iterations);
  const auto begin = Clock::now();
  auto turn =
      co_await parts_.client.ask(parts_.client.dialect().request(request), parts_.listener, parts_.cancellation);
  if (turn) {
    transcript_.add_answer(*turn, seconds_since(begin));
    report_.tokens += turn->tokens;
    if (!turn->model.empty()) report_.model = printable(turn->model.substr(0, 200));
    if (!turn->container.empty()) container_ = turn->container;
  } else {
    transcript_.add_failure(turn.error().message, seconds_since(begin));
  }
  co_return turn;
}

net::awaitable<AgentLoop::Next> AgentLoop::follow(Turn turn) {
  switch (turn.stop) {
    case StopReason::answered:
      co_return take_answer(std::move(turn));
    case StopReason::tool_use:
      if (turn.tools.empty()) co_return take_answer(std::move(turn));
      co_return co_await use_tools(std::move(turn));
    case StopReason::max_tokens:
      co_return go_on_after_cut(turn);
    case StopReason::paused:  // exactly what it said, and no word of ours
      messages_.push_back(std::move(turn.message));
      co_return Next::ask;
    case StopReason::refusal:
      co_return stop_refused(turn);
    case StopReason::context_exceeded:
      report_.answer = cut_text_ + turn.text;
      co_return stop(StoppedBecause::truncated, {.message = "The conversation no longer fits the model.",
                                                 .hint = "print less, or ask a smaller question"});
    case StopReason::unknown:
      break;
  }
  report_.answer = cut_text_ + turn.text;
  co_return stop(StoppedBecause::model_error,
                 {.message = "The model stopped for an unknown reason: " + turn.stop_text});
}

// An empty answer is nobody's answer; the model is asked once to say something.
AgentLoop::Next AgentLoop::take_answer(Turn turn) {
  report_.answer = cut_text_ + turn.text;
  if (!report_.answer.empty()) return stop(StoppedBecause::answered);
  if (std::exchange(was_silent_, true)) {
    return stop(StoppedBecause::model_error, {.message = "The model gave no answer."});
  }
  say(kSilentWords);
  return Next::ask;
}

// What was cut off may be a call whose arguments happen to be valid and are not what was meant: none of them is run.
AgentLoop::Next AgentLoop::go_on_after_cut(const Turn& turn) {
  const bool cut_call = !turn.tools.empty();
  if (!cut_call) cut_text_ += turn.text;
  if (std::exchange(was_cut_, true)) {
    report_.answer = cut_text_;
    return stop(StoppedBecause::truncated, {.message = "The answer was cut off twice, at the limit of its length.",
                                            .hint = "ask for a shorter answer"});
  }
  max_tokens_ *= 2;
  json::object kept = parts_.client.dialect().without_calls(turn.message);
  if (!kept.empty()) {  // otherwise the same request again, with more room
    messages_.push_back(std::move(kept));
    say(cut_call ? kCallAgainWords : kContinueWords);
  }
  return Next::ask;
}

net::awaitable<AgentLoop::Next> AgentLoop::use_tools(Turn turn) {
  cut_text_.clear();  // what was said before a call is not the answer
  messages_.push_back(std::move(turn.message));
  std::vector<ToolReply> replies;
  for (ToolUse& use : turn.tools) {
    if (replies.size() >= kMostCallsPerTurn) {
      replies.push_back({.id = use.id, .text = "Not run: too many calls at once.", .is_error = true});
    } else {
      replies.push_back(co_await reply_to(std::move(use)));
    }
    if (parts_.cancellation.is_cancelled()) co_return stop(StoppedBecause::cancelled);
  }
  parts_.client.dialect().add_replies(messages_, replies);
  if (!budget_.is_spent()) co_return Next::ask;
  report_.error = budget_.unfixable();
  co_return close(StoppedBecause::attempts_exhausted);
}

net::awaitable<ToolReply> AgentLoop::reply_to(ToolUse use) {
  ToolReply reply{.id = use.id, .is_error = true};
  if (budget_.is_spent()) {
    reply.text = "Not run: no attempts are left.";
  } else if (!knows(use.name)) {
    reply.text = "There is no tool of that name.";
  } else if (!use.complete) {
    reply.text = "Nothing was run: the arguments are not a JSON object. Write them again.";
  } else {
    parts_.listener.tool_begun(use);
    const Cancellation::Watch watch(parts_.cancellation, [this] { parts_.hands.cancel(); });
    HandOutcome outcome = co_await parts_.hands.call(use.name, use.arguments);
    const std::string note = budget_.count(outcome);
    parts_.listener.tool_ended(use, outcome);
    reply.is_error = outcome.is_error;
    reply.text = shortened(outcome.text);
    if (!note.empty()) reply.text += (reply.text.empty() ? "" : "\n\n") + note;
    keep_images(reply, std::move(outcome.images));
    if (reply.text.empty()) reply.text = "(no output)";
  }
  co_return reply;
}

void AgentLoop::keep_images(ToolReply& reply, std::vector<Image> images) {
  for (Image& image : images) {
    const bool fits = image.bytes.size() <= kMostImageBytes && images_sent_ < kMostImages &&
                      image_bytes_sent_ + image.bytes.size() <= kMostImageBytesTogether;
    if (!fits || std::ranges::find(kImageTypes, image.mime) == kImageTypes.end()) {
      reply.text += fmt::format("\n[a picture of {} bytes is not shown]", image.bytes.size());
      continue;
    }
    ++images_sent_;
    image_bytes_sent_ += image.bytes.size();
    reply.images.push_back(std::move(image));
  }
}

AgentLoop::Next AgentLoop::close(StoppedBecause reason) {
  report_.stopped_because = reason;
  report_.best_effort = true;
  say(kCloseWords);
  return Next::close;
}

// After the last turn, which had no tools. Whatever it says is the answer.
void AgentLoop::conclude(const Turn& turn) {
  if (turn.stop == StopReason::refusal) {
    stop_refused(turn);
    return;
  }
  report_.answer = cut_text_ + turn.text;
  if (report_.answer.empty() && report_.error.message.empty()) report_.error.message = "The model gave no answer.";
}

AgentLoop::Next AgentLoop::stop(StoppedBecause reason, AgentError error) {
  report_.stopped_because = reason;
  if (!error.message.empty()) report_.error = std::move(error);
  return Next::stop;
}

AgentLoop::Next AgentLoop::stop_refused(const Turn& turn) {
  report_.answer = turn.text;
  std::string message = "The model refused to answer.";
  if (!turn.refusal_explanation.empty())
    message = printable(std::string_view(turn.refusal_explanation).substr(0, 2000));
  return stop(StoppedBecause::refused, {.message = std::move(message),
                                        .hint = "ask differently",
                                        .category = printable(std::string_view(turn.refusal_category).substr(0, 100))});
}

void AgentLoop::say(std::string_view words) {
  parts_.client.dialect().add_words(messages_, words);
  words_ += words;
}

bool AgentLoop::knows(std::string_view tool) const {
  return std::ranges::any_of(tools_, [tool](const json::value& definition) {
    return definition.is_object() && find_text(definition.get_object(), "name") == tool;
  });
}

}  // namespace hutch::agent
