// `hutch session`: sessions of a daemon.
#pragma once

#include <string>

#include "cli/remote.h"
#include "cli/template_command.h"

namespace hutch {

struct SessionOptions {
  RemoteOptions remote;
  std::string id;
  RunOptions what;   // of `run`
  std::string text;  // code to complete, or the name of a variable
  std::string name;  // of a new one
  std::string template_name;
  bool persist = false;
  OutputFormat format = OutputFormat::text;
};

int session_list(const SessionOptions& options);
int session_create(const SessionOptions& options);
int session_run(const SessionOptions& options);
int session_variables(const SessionOptions& options);  // all, or the one that is named
int session_complete(const SessionOptions& options);
int session_inspect(const SessionOptions& options);
int session_interrupt(const SessionOptions& options);  // what runs
int session_restart(const SessionOptions& options);    // its interpreter
int session_attach(const SessionOptions& options);
int session_remove(const SessionOptions& options);

}  // namespace hutch
