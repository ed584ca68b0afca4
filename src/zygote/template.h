// A template as the keeper needs it: which files make the root, which interpreter runs, what it imports before the
// first fork. Paths here come from the operator's own configuration, never from a client.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace hutch {

// A directory of the host shown read-only at `target` inside.
struct ReadOnlyBind {
  std::string source;
  std::string target;
};

struct Template {
  std::string name;
  std::string interpreter;           // inside the sandbox: "/usr/bin/python3.11" or "/opt/hutch/env/bin/python"
  std::vector<ReadOnlyBind> binds;   // besides /usr and the few files of /etc that every root has
  std::vector<std::string> preload;  // modules that the zygote imports
  std::vector<std::pair<std::string, std::string>> environment;
  std::string skeleton;     // inside: a directory whose contents are copied to $HOME; empty when there is none
  std::string fingerprint;  // changes when anything above or the built tree changes
};

}  // namespace hutch
