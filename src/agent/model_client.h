// Asks a model for one turn, and asks again when the failure may pass. Knows the key, and is the only one who does.
#pragma once

#include <boost/json.hpp>
#include <chrono>
#include <string>

#include "agent/dialect.h"
#include "agent/model_transport.h"
#include "agent/retry.h"

namespace hutch::agent {

struct RetryNotice {
  unsigned number = 0;  // of the retry, from 1
  std::chrono::milliseconds delay{0};
  std::string reason;
};

// What was told of a turn before a retry is void: the turn begins again.
class ModelListener : public TurnListener {
 public:
  virtual void retrying(const RetryNotice& notice) = 0;
};

class ModelClient {
 public:
  // The transport and the dialect outlive the client. Fails when the key cannot be a header.
  static Result<ModelClient> make(ModelTransport& transport, const ModelDialect& dialect, Secret key,
                                  RetryPolicy policy = {});

  [[nodiscard]] const ModelDialect& dialect() const { return dialect_; }
  // The references outlive the call. When it was cancelled there is an error that says nothing.
  net::awaitable<Result<Turn>> ask(boost::json::object body, ModelListener& listener, Cancellation& cancellation);

 private:
  struct Attempt {
    Result<Turn> turn;
    FailedAttempt failure;
    bool may_retry = false;
  };

  ModelClient(ModelTransport& transport, const ModelDialect& dialect, Secret key, RetryPolicy policy)
      : transport_(transport), dialect_(dialect), key_(std::move(key)), policy_(policy) {}
  net::awaitable<Attempt> try_once(const ModelRequest& request, ModelListener& listener, Cancellation& cancellation);
  [[nodiscard]] Error refusal(const ModelReply& reply) const;
  [[nodiscard]] Error stream_failure(const StreamError& said) const;
  [[nodiscard]] std::string presentable(std::string_view text) const;

  ModelTransport& transport_;
  const ModelDialect& dialect_;
  Secret key_;
  RetryPolicy policy_;
};

}  // namespace hutch::agent
