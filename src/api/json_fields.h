// Reads the fields of a JSON object strictly: wrong types, values out of range and fields that nobody asked for are
// errors that name the field. The first one counts.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/api_error.h"

namespace hutch {

class JsonFields {
 public:
  JsonFields(const boost::json::object& object, std::string where) : object_(object), where_(std::move(where)) {}

  // Each leaves `into` as it is when the field is missing; true when it is there and right.
  bool text(std::string_view name, std::string& into, std::size_t most);
  bool boolean(std::string_view name, bool& into);
  bool integer(std::string_view name, std::uint64_t& into, std::uint64_t least, std::uint64_t most);
  bool number(std::string_view name, double& into, double least, double most);
  const boost::json::object* object(std::string_view name);
  const boost::json::array* array(std::string_view name, std::size_t most);
  const boost::json::value* value(std::string_view name);  // of any type

  [[nodiscard]] std::string full_name(std::string_view name) const;
  void refuse(std::string message, std::string code = "bad_arguments");
  // After the last field.
  Handled finish();
  // The same for objects whose authors add fields as they like: others are let pass.
  Handled finish_loosely();

 private:
  const boost::json::value* take(std::string_view name);

  const boost::json::object& object_;
  std::string where_;
  std::vector<std::string_view> taken_;
  std::optional<ApiError> problem_;
};

// The whole body, of at most `most` bytes and a bounded number of values, which says that it is JSON. Its share of the
// budget stays with the exchange.
net::awaitable<Api<std::string>> read_json_text(HttpExchange& exchange, std::size_t most);
// The whole body as one JSON object, at most `most` bytes and this deep.
net::awaitable<Api<boost::json::object>> read_json(HttpExchange& exchange, std::size_t most, std::size_t depth = 32);

}  // namespace hutch
