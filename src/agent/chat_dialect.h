// Chat completions, as OpenAI and many servers of open models speak them.
#pragma once

#include "agent/dialect.h"

namespace hutch::agent {

class ChatDialect final : public ModelDialect {
 public:
  [[nodiscard]] std::string_view name() const override { return "openai"; }
  [[nodiscard]] std::string_view path() const override { return "/v1/chat/completions"; }
  [[nodiscard]] std::vector<Header> headers(const Secret& key) const override;
  [[nodiscard]] boost::json::object request(const TurnRequest& turn) const override;
  [[nodiscard]] std::unique_ptr<TurnReader> reader() const override;
  void add_words(boost::json::array& messages, std::string_view words) const override;
  void add_replies(boost::json::array& messages, std::span<const ToolReply> replies) const override;
  [[nodiscard]] boost::json::object without_calls(const boost::json::object& message) const override;
};

}  // namespace hutch::agent
