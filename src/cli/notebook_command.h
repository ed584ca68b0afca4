// `hutch notebook run`: the cells of a notebook, one after the other in one sandbox.
#pragma once

#include <string>
#include <vector>

#include "cli/run_command.h"

namespace hutch {

struct NotebookCommand {
  RunOptions run;                       // template, limits, files; `timeout` is that of a cell, `file` the notebook
  std::string output;                   // -o; "-": standard output
  std::string html;                     // --html
  std::vector<std::string> parameters;  // -p
  std::string parameters_file;
  bool allow_errors = false;
  bool hutch_data = false;
};

int notebook_run(const NotebookCommand& command, const Config& config);

}  // namespace hutch
