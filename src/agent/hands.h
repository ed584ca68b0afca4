// What an agent can do: the tools it is offered, and who does the work. The daemon implements it.
#pragma once

#include <boost/json.hpp>
#include <string>
#include <vector>

#include "session/task_group.h"

namespace hutch::agent {

struct Image {
  std::string mime;  // image/png, image/jpeg, image/gif or image/webp
  std::string bytes;
};

struct HandOutcome {
  std::string text;
  std::vector<Image> images;
  bool is_error = false;  // the tool itself failed; an exception of the code is a result like others
  bool ran_code = false;  // counts as an attempt
  std::string status;     // ok, error, timeout, cancelled, running
  // Of the structured error; empty when all went well.
  std::string category;
  std::string fix;
  std::string hint;
  bool retryable = false;
};

class Hands {
 public:
  virtual ~Hands() = default;

  // [{"name", "description", "input_schema"}], in no API's dialect.
  [[nodiscard]] virtual boost::json::array definitions() const = 0;
  // One call at a time. Arguments are the model's: not checked by anybody yet.
  virtual net::awaitable<HandOutcome> call(std::string name, boost::json::object arguments) = 0;
  // The call under way is to end soon; its outcome is thrown away.
  virtual void cancel() {}
};

}  // namespace hutch::agent
