#include "session/error_table.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>

namespace hutch {
namespace {

constexpr int exited(int code) { return code << 8; }

RunFacts python_failed(std::string name, std::string value = {}, int error_number = 0) {
  return {
      .wait_status = exited(1),
      .python = wire::PythonError{.name = std::move(name), .value = std::move(value), .error_number = error_number}};
}

TEST(ErrorTable, ExitCodeZeroIsNeverAnErrorWhateverTheProgramClaims) {
  RunFacts facts = python_failed("ValueError");
  facts.wait_status = exited(0);
  const auto verdict = judge(facts);
  EXPECT_EQ(verdict.status, wire::Status::ok);
  EXPECT_FALSE(verdict.error);
}

TEST(ErrorTable, ATimeLimitIs124WithTheLimitAndWhatWasUsed) {
  const auto verdict = judge({.ended = Ended::wall_limit, .wait_status = SIGKILL, .wall_ms = 30'012});
  EXPECT_EQ(verdict.status, wire::Status::timeout);
  EXPECT_EQ(verdict.exit_code, 124);
  EXPECT_EQ(verdict.error->message, "Execution timed out after 30 s.");
  EXPECT_EQ(verdict.error->limit_value, 30'000U);
  EXPECT_EQ(verdict.error->limit_used, 30'012U);
}

TEST(ErrorTable, AKillByTheKernelForMemoryIsToldFromAPlainKill) {
  EXPECT_EQ(judge({.wait_status = SIGKILL, .usage = {.oom_kills = 1}}).error->code, "oom_killed");
  EXPECT_EQ(judge({.wait_status = SIGKILL}).error->code, "signal_other");
  EXPECT_EQ(judge({.wait_status = SIGKILL}).exit_code, 137);
}

TEST(ErrorTable, TooMuchOutputIsAKillEvenWhenTheProgramEndedByItself) {
  const auto verdict = judge({.ended = Ended::output_limit, .wait_status = exited(0)});
  EXPECT_EQ(verdict.status, wire::Status::error);
  EXPECT_EQ(verdict.exit_code, 137);
}

TEST(ErrorTable, EveryRowOfPythonsWords) {
  const auto category = [](const RunFacts& facts) {
    return judge(facts).error->category + "/" + judge(facts).error->code;
  };
  EXPECT_EQ(category(python_failed("SyntaxError")), "syntax_error/syntax_error");
  EXPECT_EQ(category(python_failed("TabError")), "syntax_error/indentation_error");
  EXPECT_EQ(category(python_failed("ModuleNotFoundError")), "missing_module/module_not_found");
  EXPECT_EQ(category(python_failed("MemoryError")), "memory_limit/memory_error");
  EXPECT_EQ(category(python_failed("gaierror", "", -3)), "network_blocked/network_disabled");
  EXPECT_EQ(category(python_failed("OSError", "", ENETUNREACH)), "network_blocked/network_disabled");
  EXPECT_EQ(category(python_failed("PermissionError", "[Errno 13] Permission denied", EACCES)),
            "network_blocked/network_disabled");
  EXPECT_EQ(category(python_failed("PermissionError", "[Errno 13] Permission denied: '/usr/x'", EACCES)),
            "permission_denied/path_denied");
  EXPECT_EQ(category(python_failed("URLError", "<urlopen error>")), "network_blocked/network_disabled");
  EXPECT_EQ(category(python_failed("OSError", "", ENOSPC)), "resource_limit/disk_full");
  EXPECT_EQ(category(python_failed("OSError", "", EMFILE)), "resource_limit/too_many_files");
  EXPECT_EQ(category(python_failed("OSError", "", EROFS)), "permission_denied/readonly_fs");
  EXPECT_EQ(category(python_failed("EOFError", "EOF when reading a line")), "stdin_unavailable/input_called");
  EXPECT_EQ(category(python_failed("ZeroDivisionError")), "python_exception/exception");
  EXPECT_EQ(category({.wait_status = exited(3)}), "system_exit/exit");
  EXPECT_EQ(category({.wait_status = SIGSEGV}), "crash/signal_segv");
}

TEST(ErrorTable, AFailedCallIsOneOnlyWhereTheEngineSaysSo) {
  RunFacts facts = python_failed("ToolError", "no such table");
  EXPECT_EQ(judge(facts).error->category, "python_exception");
  facts.host_call = HostCallFailure{.code = "tool_error", .message = "no such table"};
  const auto error = *judge(facts).error;
  EXPECT_EQ(error.category + "/" + error.code, "host_call_failed/tool_error");
  EXPECT_EQ(error.message, "ToolError: no such table");
  EXPECT_FALSE(error.retryable);
  facts.host_call->code = "tool_timeout";
  EXPECT_TRUE(judge(facts).error->retryable);
}

}  // namespace
}  // namespace hutch
