// Shown what an agent does while it does it. Everything is told from the event loop's thread, and none of it may wait.
#pragma once

#include "agent/agent_report.h"
#include "agent/hands.h"
#include "agent/model_client.h"
#include "agent/turn.h"

namespace hutch::agent {

// Text is the model's: whoever puts it on a terminal escapes it.
class AgentListener : public ModelListener {
 public:
  virtual void turn_begun([[maybe_unused]] unsigned number) {}
  void thinking([[maybe_unused]] std::string_view piece) override {}
  void answer_text([[maybe_unused]] std::string_view piece) override {}
  void retrying([[maybe_unused]] const RetryNotice& notice) override {}
  virtual void tool_begun([[maybe_unused]] const ToolUse& use) {}
  virtual void tool_ended([[maybe_unused]] const ToolUse& use, [[maybe_unused]] const HandOutcome& outcome) {}
  virtual void done([[maybe_unused]] const AgentReport& report) {}
};

}  // namespace hutch::agent
