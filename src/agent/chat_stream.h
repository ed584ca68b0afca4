// Puts an answer of a chat completion together from its chunks. Servers differ in what they leave out: an index, an id,
// the closing [DONE]. None of that makes an answer useless.
#pragma once

#include "agent/dialect.h"

namespace hutch::agent {

class ChatReader final : public TurnReader {
 public:
  Result<void> feed(const SseEvent& event, TurnListener& listener) override;
  [[nodiscard]] bool is_finished() const override { return finished_; }
  Result<Turn> take() override;

 private:
  struct Call {
    std::string id;
    std::string name;
    std::string arguments;
  };

  void read_delta(const boost::json::object& delta, TurnListener& listener);
  void read_calls(const boost::json::array& pieces);
  Call* call_for(const boost::json::object& piece);
  void read_usage(const boost::json::object& chunk);
  Result<void> fail(const boost::json::value& error);
  boost::json::object take_calls();

  Turn turn_;
  std::string refusal_;
  std::vector<Call> calls_;
  bool finished_ = false;
};

}  // namespace hutch::agent
