#include "agent/system_prompt.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"

namespace hutch::agent {
namespace {

constexpr std::size_t kMostFilesNamed = 100;

}  // namespace

std::string system_prompt(const AgentTask& task, const AgentLimits& limits) {
  std::string text =
      "You answer questions by writing Python code and running it with your tools. Compute what can be computed: do "
      "not "
      "guess numbers. Code runs in a sandbox on a Linux machine; its working directory is /workspace. Print what you "
      "need to see: only what is printed, shown or left as a file comes back to you.\n";
  if (!task.facts.empty()) text += clean_utf8(task.facts) + "\n";
  if (!task.files.empty()) {
    text += "These files are in the working directory:\n";
    const std::size_t named = std::min(task.files.size(), kMostFilesNamed);
    for (std::size_t i = 0; i < named; ++i) {
      text += fmt::format("- {} ({} bytes)\n", printable(task.files[i].path), task.files[i].bytes);
    }
    if (named < task.files.size()) text += fmt::format("and {} more.\n", task.files.size() - named);
  }
  text += fmt::format(
      "When code fails, read the error and its hint, change the code, and run it again; do not run the same code "
      "twice. {} of your executions may fail, then your tools are taken away; you have {} turns. An error that says it "
      "cannot be fixed by changing the code is no reason to try again.\n"
      "When you know the answer, state it plainly, with the numbers, and stop.",
      limits.attempts, limits.iterations);
  return text;
}

}  // namespace hutch::agent
