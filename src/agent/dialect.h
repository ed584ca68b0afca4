// How one family of model servers wants to be spoken to. Pure: makes JSON for the way out, and reads events on the way
// in. A conversation is kept in the dialect's own form, so that what a model said goes back to it unchanged.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/hands.h"
#include "agent/sse.h"
#include "agent/turn.h"
#include "base/result.h"
#include "session/key_store.h"

namespace hutch::agent {

enum class ApiKind : std::uint8_t { anthropic, openai };

enum class ToolChoice : std::uint8_t { automatic, none };

struct TurnRequest {
  std::string_view model;
  std::string_view system;
  std::uint32_t max_tokens = 0;
  const boost::json::array& tools;  // as Hands::definitions() gives them
  const boost::json::array& messages;
  ToolChoice tool_choice = ToolChoice::automatic;
  std::string_view container;  // of the turn before, or empty
};

struct ToolReply {
  std::string id;  // of the ToolUse
  std::string text;
  std::vector<Image> images;
  bool is_error = false;
};

// Told what arrives while it arrives.
class TurnListener {
 public:
  virtual ~TurnListener() = default;
  virtual void thinking(std::string_view piece) = 0;
  virtual void answer_text(std::string_view piece) = 0;
};

// An error that the server reported inside the stream, after it had said 200.
struct StreamError {
  std::string type;
  std::string message;
};

// Puts one answer together. After an error it is not fed again.
class TurnReader {
 public:
  virtual ~TurnReader() = default;

  virtual Result<void> feed(const SseEvent& event, TurnListener& listener) = 0;
  [[nodiscard]] virtual bool is_finished() const = 0;  // nothing more is coming
  // An answer that broke off is an error: disconnected.
  virtual Result<Turn> take() = 0;
  [[nodiscard]] const StreamError& stream_error() const { return stream_error_; }

 protected:
  StreamError stream_error_;  // its type is empty as long as there was none
};

class ModelDialect {
 public:
  using Header = std::pair<std::string, std::string>;
  virtual ~ModelDialect() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual std::string_view path() const = 0;
  [[nodiscard]] virtual std::vector<Header> headers(const Secret& key) const = 0;
  [[nodiscard]] virtual boost::json::object request(const TurnRequest& turn) const = 0;
  [[nodiscard]] virtual std::unique_ptr<TurnReader> reader() const = 0;

  // The user says something. Comes after tool results, if these are the last message.
  virtual void add_words(boost::json::array& messages, std::string_view words) const = 0;
  // Every reply to one turn's calls.
  virtual void add_replies(boost::json::array& messages, std::span<const ToolReply> replies) const = 0;
  // What is left of a message that was cut off once its calls are gone; empty when nothing is worth sending back.
  [[nodiscard]] virtual boost::json::object without_calls(const boost::json::object& message) const = 0;
};

std::unique_ptr<ModelDialect> make_dialect(ApiKind api);

}  // namespace hutch::agent
