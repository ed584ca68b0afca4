// Puts packages into an environment with uv, or with pip where uv cannot be had. Wheels only: nothing of a package runs
// while it is installed. The settings of the caller (index, proxy, certificates; PIP_*, UV_*, pip.conf) apply to both.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "session/template_interpreter.h"

namespace hutch {

using Lines = std::function<void(std::string_view)>;

class Installer {
 public:
  // uv on PATH; else a uv of our own in `tools`, installed with pip; else that pip.
  static Result<Installer> find(const Interpreter& interpreter, const std::filesystem::path& tools,
                                const std::vector<std::string>& caller_environment, const Lines& lines);

  [[nodiscard]] std::string_view name() const { return uses_uv_ ? "uv" : "pip"; }

  // `packages` have passed check_requirement().
  Result<void> install(const std::filesystem::path& python, const std::vector<std::string>& packages,
                       const Lines& lines) const;
  // One package without what it depends on, unpacked into `directory`.
  Result<void> unpack(const std::filesystem::path& python, std::string_view package,
                      const std::filesystem::path& directory, const Lines& lines) const;
  // "numpy==2.3.1", sorted.
  Result<std::vector<std::string>> installed(const std::filesystem::path& python) const;

 private:
  Installer(bool uses_uv, std::filesystem::path program, std::vector<std::string> environment)
      : uses_uv_(uses_uv), program_(std::move(program)), environment_(std::move(environment)) {}

  [[nodiscard]] std::vector<std::string> command_line(const std::filesystem::path& python,
                                                      std::vector<std::string> words) const;

  bool uses_uv_;
  std::filesystem::path program_;  // uv, or the python that has pip
  std::vector<std::string> environment_;
};

// The caller's environment without what would lead an installer elsewhere, and with what pip has been told also said
// in uv's words. `pip_settings` is the output of `pip config list`, or empty.
std::vector<std::string> installer_environment(const std::vector<std::string>& caller, std::string_view pip_settings);

// Whether an installer failed because it did not reach the package index.
bool tells_of_no_network(std::string_view output);

}  // namespace hutch
