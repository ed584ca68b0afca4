// Ctrl-C while code runs on a daemon: the first asks the daemon to interrupt it, the second leaves it to itself.
#pragma once

#include <memory>
#include <string>

#include "cli/remote.h"

namespace hutch {

class Interrupts {
 public:
  // From here on SIGINT is ours, unless it is ignored: the command is in the background of a script. To be made before
  // any thread.
  explicit Interrupts(const RemoteOptions& remote);
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;
  ~Interrupts();  // the daemon has heard what it was asked

  void expect();               // something is about to run; until then, Ctrl-C leaves
  void aim(std::string path);  // a POST there interrupts it
  void done();                 // nothing runs any more

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace hutch
