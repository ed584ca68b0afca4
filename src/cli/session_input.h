// Lines of our standard input for a cell that asks for them.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "cli/line_reader.h"
#include "cli/remote.h"

namespace hutch {

// A cell that can have no line, because our input has ended, is interrupted. Nothing, when the waiting was called off.
Result<void> give_line(const RemoteOptions& remote, const std::string& session,
                       const std::expected<std::string, NoLine>& line);

// Reads and gives them while another thread shows what the cell says.
class InputGiver {
 public:
  InputGiver(const RemoteOptions& remote, std::string session) : remote_(remote), session_(std::move(session)) {}
  InputGiver(const InputGiver&) = delete;
  InputGiver& operator=(const InputGiver&) = delete;
  ~InputGiver();

  void want_line();

 private:
  void give_lines();

  RemoteOptions remote_;
  std::string session_;
  LineReader lines_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool wanted_ = false;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace hutch
