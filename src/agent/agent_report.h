// What is left of an agent's work: the answer, why it stopped there, and what it took.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "agent/turn.h"

namespace hutch::agent {

enum class StoppedBecause : std::uint8_t {
  answered,
  attempts_exhausted,    // of code that fails, or two errors in a row that code cannot mend
  iterations_exhausted,  // of the model
  refused,               // by the model
  truncated,             // the answer did not fit
  model_error,           // the server failed, or the model stopped in a way we do not know
  cancelled,
};

std::string_view to_text(StoppedBecause reason);

struct AgentError {
  std::string message;  // empty: there was none
  std::string hint;
  std::string category;  // of a refusal, or of the error that ended the tools; may be empty
};

struct AgentReport {
  std::string answer;
  StoppedBecause stopped_because = StoppedBecause::model_error;
  unsigned attempts = 0;         // executions of code
  unsigned failed_attempts = 0;  // of these, those that ended in an error
  unsigned iterations = 0;       // turns of the model in which it could use its tools
  Tokens tokens;
  double seconds = 0;
  std::string model;         // which one answered
  bool best_effort = false;  // the model was asked for what it had when a budget was spent
  AgentError error;
  boost::json::object transcript;  // without the key; not part of report_json()
};

boost::json::object report_json(const AgentReport& report);

}  // namespace hutch::agent
