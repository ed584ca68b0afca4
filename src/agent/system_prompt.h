// What a model is told before the question.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hutch::agent {

struct GivenFile {
  std::string path;  // relative to the working directory
  std::uint64_t bytes = 0;
};

struct AgentTask {
  std::string question;
  std::vector<GivenFile> files;
  std::string facts;  // about the sandbox, in sentences: packages, limits, network; may be empty
};

// Attempts are executions of code. Only those that fail are counted against the budget: after `attempts` of them the
// tools are taken away. What works is bounded by `iterations`, which are turns of the model that could use tools. When
// either is spent, the model is asked once more, without tools, for the best answer it has; that turn is no iteration.
struct AgentLimits {
  unsigned attempts = 3;
  unsigned iterations = 10;
  std::uint32_t max_tokens = 8192;  // of one turn; one that is cut off is given twice as many, once
};

std::string system_prompt(const AgentTask& task, const AgentLimits& limits);

}  // namespace hutch::agent
