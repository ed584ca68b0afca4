// Puts an answer of the Messages API together from its events. Blocks that we do not know are kept as they came.
#pragma once

#include "agent/dialect.h"

namespace hutch::agent {

class MessagesReader final : public TurnReader {
 public:
  Result<void> feed(const SseEvent& event, TurnListener& listener) override;
  [[nodiscard]] bool is_finished() const override { return finished_; }
  Result<Turn> take() override;

 private:
  struct Block {
    boost::json::object content;
    std::string input_json;  // of a tool's arguments, in pieces until the block ends
    bool ended = false;
    bool input_is_whole = true;
  };

  void start_message(const boost::json::object& data);
  Result<void> start_block(const boost::json::object& data, TurnListener& listener);
  Result<void> change_block(const boost::json::object& data, TurnListener& listener);
  Result<void> end_block(const boost::json::object& data);
  void change_message(const boost::json::object& data);
  Result<void> fail(const boost::json::object& data);
  void read_usage(const boost::json::object& holder);
  Result<Block*> open_block(const boost::json::object& data);

  Turn turn_;
  std::vector<Block> blocks_;
  bool finished_ = false;
};

}  // namespace hutch::agent
