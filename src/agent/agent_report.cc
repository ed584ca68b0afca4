#include "agent/agent_report.h"

namespace hutch::agent {

namespace json = boost::json;

std::string_view to_text(StoppedBecause reason) {
  switch (reason) {
    case StoppedBecause::answered:
      return "answered";
    case StoppedBecause::attempts_exhausted:
      return "attempts_exhausted";
    case StoppedBecause::iterations_exhausted:
      return "iterations_exhausted";
    case StoppedBecause::refused:
      return "refused";
    case StoppedBecause::truncated:
      return "truncated";
    case StoppedBecause::model_error:
      return "model_error";
    case StoppedBecause::cancelled:
      return "cancelled";
  }
  return "model_error";
}

json::object report_json(const AgentReport& report) {
  json::value error;
  if (!report.error.message.empty()) {
    error = {{"message", report.error.message}, {"hint", report.error.hint}, {"category", report.error.category}};
  }
  return {{"answer", report.answer},
          {"stopped_because", to_text(report.stopped_because)},
          {"best_effort", report.best_effort},
          {"attempts", report.attempts},
          {"failed_attempts", report.failed_attempts},
          {"iterations", report.iterations},
          {"tokens",
           {{"input", report.tokens.input},
            {"output", report.tokens.output},
            {"cache_read", report.tokens.cache_read},
            {"cache_creation", report.tokens.cache_creation}}},
          {"seconds", report.seconds},
          {"model", report.model},
          {"error", std::move(error)}};
}

}  // namespace hutch::agent
