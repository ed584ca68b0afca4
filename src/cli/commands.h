// What can be typed after `hutch`: each function gives one command its options and returns who carries it out. Only the
// command that was asked for is defined, because defining all of them takes longer than a warm run.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "cli/config.h"

namespace hutch {

using Action = std::function<int(const Config&)>;  // the exit code
using Words = std::vector<std::string>;

Action define_run(CLI::App& app, const Words& after_dashes);
Action define_shell(CLI::App& app, const Words& after_dashes);
Action define_notebook(CLI::App& app, const Words& after_dashes);
Action define_engine(CLI::App& app, const Words& after_dashes);
Action define_template(CLI::App& app, const Words& after_dashes);
Action define_bench(CLI::App& app, const Words& after_dashes);
Action define_doctor(CLI::App& app, const Words& after_dashes);
Action define_config(CLI::App& app, const Words& after_dashes);
Action define_serve(CLI::App& app, const Words& after_dashes);
Action define_mcp(CLI::App& app, const Words& after_dashes);
Action define_session(CLI::App& app, const Words& after_dashes);
Action define_key(CLI::App& app, const Words& after_dashes);
Action define_agent(CLI::App& app, const Words& after_dashes);
Action define_tools(CLI::App& app, const Words& after_dashes);

int own_failure(const Error& error);

}  // namespace hutch
