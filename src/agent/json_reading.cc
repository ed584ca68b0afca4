#include "agent/json_reading.h"

#include <openssl/evp.h>

namespace hutch::agent {

namespace json = boost::json;

Result<json::object> parse_object(std::string_view text) {
  boost::system::error_code failed;
  json::value value = json::parse({text.data(), text.size()}, failed);
  if (failed) return make_error(ErrorCode::protocol, "not valid JSON: " + failed.message());
  if (!value.is_object()) return make_error(ErrorCode::protocol, "not a JSON object");
  return std::move(value.get_object());
}

const json::value* find(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains({key.data(), key.size()});
  return value != nullptr && !value->is_null() ? value : nullptr;
}

const json::object* find_object(const json::object& object, std::string_view key) {
  const json::value* value = find(object, key);
  return value != nullptr ? value->if_object() : nullptr;
}

const json::array* find_array(const json::object& object, std::string_view key) {
  const json::value* value = find(object, key);
  return value != nullptr ? value->if_array() : nullptr;
}

std::string_view find_text(const json::object& object, std::string_view key) {
  const json::value* value = find(object, key);
  const json::string* text = value != nullptr ? value->if_string() : nullptr;
  return text != nullptr ? std::string_view(text->data(), text->size()) : std::string_view{};
}

void read_count(const json::object& object, std::string_view key, std::uint64_t& count) {
  const json::value* value = find(object, key);
  if (value == nullptr) return;
  if (const auto* number = value->if_int64(); number != nullptr && *number >= 0) {
    count = static_cast<std::uint64_t>(*number);
  }
}

void append_text(json::object& object, std::string_view key, std::string_view piece) {
  json::value& value = object[{key.data(), key.size()}];
  if (!value.is_string()) value.emplace_string();
  value.get_string().append({piece.data(), piece.size()});
}

std::string to_base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // it writes a zero at the end
  const int length =
      ::EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                        reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(length));
  return text;
}

}  // namespace hutch::agent
