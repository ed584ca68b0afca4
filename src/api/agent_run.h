// One question answered by an agent whose hands are our tools, in a session of its own.
#pragma once

#include <string>
#include <vector>

#include "agent/agent_loop.h"
#include "agent/cancellation.h"
#include "agent/dialect.h"
#include "api/daemon.h"

namespace hutch {

struct AgentFile {
  std::string path;
  std::string content;
};

// Which model, and how it is reached.
struct ModelSettings {
  agent::ApiKind api = agent::ApiKind::anthropic;
  std::string base_url;
  std::string model;
  std::string key;  // never logged, never in an answer, never in a sandbox
};

struct AgentAsked {
  std::string question;
  std::vector<AgentFile> files;
  agent::AgentLimits limits;
};

struct AgentOutcome {
  agent::AgentReport report;
  std::string session_id;
  std::string notebook;  // what it ran, as .ipynb
};

// What the configuration and the environment say; an error tells what is missing.
Result<ModelSettings> find_model(const ServeSettings& settings);

// The session ends with the work. The references outlive the call.
net::awaitable<Api<AgentOutcome>> run_agent(Daemon& daemon, Caller caller, ModelSettings model, AgentAsked asked,
                                            agent::AgentListener& listener, agent::Cancellation& cancellation);

}  // namespace hutch
