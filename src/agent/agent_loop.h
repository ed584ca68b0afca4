// The loop of an agent: the model speaks, its tools run, the results go back, until there is an answer or a budget is
// spent. One loop answers one question. Whatever happens, there is a report.
#pragma once

#include <boost/json.hpp>
#include <string>
#include <vector>

#include "agent/agent_listener.h"
#include "agent/agent_report.h"
#include "agent/hands.h"
#include "agent/model_client.h"
#include "agent/system_prompt.h"
#include "agent/tool_budget.h"
#include "agent/transcript.h"

namespace hutch::agent {

class AgentLoop {
 public:
  struct Parts {  // all of them outlive the loop
    ModelClient& client;
    Hands& hands;
    AgentListener& listener;
    Cancellation& cancellation;
  };

  AgentLoop(Parts parts, std::string model, AgentLimits limits);

  net::awaitable<AgentReport> run(AgentTask task);

 private:
  enum class Next : std::uint8_t {
    ask,    // another turn with tools
    close,  // one last turn without
    stop,
  };

  net::awaitable<Result<Turn>> ask(ToolChoice choice);
  net::awaitable<Next> follow(Turn turn);
  net::awaitable<Next> use_tools(Turn turn);
  net::awaitable<ToolReply> reply_to(ToolUse use);
  void keep_images(ToolReply& reply, std::vector<Image> images);
  Next take_answer(Turn turn);
  Next go_on_after_cut(const Turn& turn);
  Next close(StoppedBecause reason);
  Next stop(StoppedBecause reason, AgentError error = {});
  Next stop_refused(const Turn& turn);
  void conclude(const Turn& turn);
  void say(std::string_view words);
  [[nodiscard]] bool knows(std::string_view tool) const;

  Parts parts_;
  std::string model_;
  AgentLimits limits_;
  ToolBudget budget_;
  boost::json::array tools_;
  boost::json::array messages_;
  std::string system_;
  std::string words_;     // said since the last request
  std::string cut_text_;  // the beginning of an answer that was cut off and goes on
  std::string container_;
  std::uint32_t max_tokens_;
  std::size_t images_sent_ = 0;
  std::size_t image_bytes_sent_ = 0;
  bool was_cut_ = false;
  bool was_silent_ = false;
  Transcript transcript_;
  AgentReport report_;
};

}  // namespace hutch::agent
