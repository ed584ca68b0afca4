#include "api/json_fields.h"

#include <algorithm>
#include <cmath>

#include "base/utf8.h"

namespace hutch {

namespace json = boost::json;

std::string JsonFields::full_name(std::string_view name) const {
  return where_.empty() ? std::string(name) : where_ + "." + std::string(name);
}

void JsonFields::refuse(std::string message, std::string code) {
  if (!problem_) problem_ = bad_request(std::move(message), {}, std::move(code));
}

const json::value* JsonFields::take(std::string_view name) {
  taken_.push_back(name);
  const auto* found = object_.if_contains(name);
  return found != nullptr && !found->is_null() ? found : nullptr;
}

const json::value* JsonFields::value(std::string_view name) { return take(name); }

bool JsonFields::text(std::string_view name, std::string& into, std::size_t most) {
  const auto* found = take(name);
  if (found == nullptr) return false;
  if (!found->is_string()) return refuse(full_name(name) + " must be a string"), false;
  if (found->get_string().size() > most) {
    return refuse(full_name(name) + " is longer than " + std::to_string(most) + " bytes"), false;
  }
  into.assign(found->get_string());
  return true;
}

bool JsonFields::boolean(std::string_view name, bool& into) {
  const auto* found = take(name);
  if (found == nullptr) return false;
  if (!found->is_bool()) return refuse(full_name(name) + " must be true or false"), false;
  into = found->get_bool();
  return true;
}

bool JsonFields::integer(std::string_view name, std::uint64_t& into, std::uint64_t least, std::uint64_t most) {
  const auto* found = take(name);
  if (found == nullptr) return false;
  boost::system::error_code failed;
  const auto number = found->is_number() ? found->to_number<std::uint64_t>(failed) : 0;
  if (!found->is_number() || failed) return refuse(full_name(name) + " must be a whole number"), false;
  if (number < least || number > most) {
    refuse(full_name(name) + " must be from " + std::to_string(least) + " to " + std::to_string(most));
    return false;
  }
  into = number;
  return true;
}

bool JsonFields::number(std::string_view name, double& into, double least, double most) {
  const auto* found = take(name);
  if (found == nullptr) return false;
  if (!found->is_number()) return refuse(full_name(name) + " must be a number"), false;
  boost::system::error_code failed;
  const double number = found->to_number<double>(failed);
  if (failed || !std::isfinite(number) || number < least || number > most) {
    refuse(full_name(name) + " is out of range");
    return false;
  }
  into = number;
  return true;
}

const json::object* JsonFields::object(std::string_view name) {
  const auto* found = take(name);
  if (found == nullptr) return nullptr;
  if (!found->is_object()) return refuse(full_name(name) + " must be an object"), nullptr;
  return &found->get_object();
}

const json::array* JsonFields::array(std::string_view name, std::size_t most) {
  const auto* found = take(name);
  if (found == nullptr) return nullptr;
  if (!found->is_array()) return refuse(full_name(name) + " must be an array"), nullptr;
  if (found->get_array().size() > most) {
    return refuse(full_name(name) + " has more than " + std::to_string(most) + " entries"), nullptr;
  }
  return &found->get_array();
}

Handled JsonFields::finish() {
  for (const auto& field : object_) {
    if (problem_ || std::ranges::find(taken_, std::string_view(field.key())) != taken_.end()) continue;
    refuse("unknown field: " + printable(full_name(std::string_view(field.key()).substr(0, 100))), "unknown_field");
  }
  return finish_loosely();
}

Handled JsonFields::finish_loosely() {
  if (problem_) return std::unexpected(std::move(*problem_));
  return {};
}

namespace {

ApiError too_large(std::string message) {
  return {.status = 413,
          .category = "invalid_request",
          .code = "too_large",
          .message = std::move(message),
          .hint = "Put large data into files: PUT /v1/sessions/{session}/files/{path}."};
}

ApiError unreadable(BodyProblem problem) {
  const bool slow = problem == BodyProblem::too_slow;
  return {.status = slow ? 408U : 400U,
          .category = "invalid_request",
          .code = slow ? "too_slow" : "bad_arguments",
          .message = slow ? "The body came too slowly." : "The body could not be read."};
}

ApiError no_memory() {
  return {.status = 503,
          .category = "capacity",
          .code = "no_slots",
          .message = "Too many large bodies are being dealt with.",
          .hint = "Put large data into files: PUT /v1/sessions/{session}/files/{path}.",
          .retry_after = std::chrono::seconds(1)};
}

}  // namespace

net::awaitable<Api<std::string>> read_json_text(HttpExchange& exchange, std::size_t most) {
  const auto& request = exchange.request();
  const std::string_view type = request.header("content-type");
  const bool is_json = type == "application/json" || type.starts_with("application/json;");
  if (request.has_body && !is_json) {
    co_return std::unexpected(ApiError{.status = 415,
                                       .category = "invalid_request",
                                       .code = "unsupported_media_type",
                                       .message = "The body must be JSON.",
                                       .hint = "Send the header Content-Type: application/json."});
  }
  const std::string larger = "The body is larger than " + std::to_string(most) + " bytes.";
  if (request.length && *request.length > most) co_return std::unexpected(too_large(larger));
  const auto deadline = Clock::now() + kLongestBody;
  exchange.body_share = std::make_shared<BodyBudget::Share>(exchange.bodies, exchange.key_id);
  auto& share = *exchange.body_share;
  std::string body;
  for (;;) {
    const auto piece = co_await exchange.read_some();
    if (!piece) co_return std::unexpected(unreadable(piece.error()));
    if (piece->empty()) break;
    if (body.size() + piece->size() > most) co_return std::unexpected(too_large(larger));
    if (!share.grow_to(body.size() + piece->size())) co_return std::unexpected(no_memory());
    if (Clock::now() > deadline) co_return std::unexpected(unreadable(BodyProblem::too_slow));
    body += *piece;
  }
  const std::size_t values = count_json_values(body);
  if (values > kMostJsonValues) {
    co_return std::unexpected(too_large("The body has more than " + std::to_string(kMostJsonValues) + " values."));
  }
  if (!share.grow_to(body.size() + values * kBytesOfValue)) co_return std::unexpected(no_memory());
  co_return body;
}

net::awaitable<Api<json::object>> read_json(HttpExchange& exchange, std::size_t most, std::size_t depth) {
  HUTCH_API_TRY(const auto body, co_await read_json_text(exchange, most));
  boost::system::error_code failed;
  json::parse_options options;
  options.max_depth = depth;
  auto value = json::parse(body.empty() ? "{}" : body, failed, {}, options);
  if (failed) co_return std::unexpected(bad_request("The body is not valid JSON: " + failed.message(), {}, "bad_json"));
  if (!value.is_object()) co_return std::unexpected(bad_request("The body must be a JSON object.", {}, "bad_json"));
  co_return std::move(value.get_object());
}

}  // namespace hutch
