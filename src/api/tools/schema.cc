#include "api/tools/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "api/json_text.h"
#include "base/utf8.h"

namespace hutch {
namespace {

namespace json = boost::json;

constexpr std::size_t kMostNamed = 8;  // problems in one message
constexpr std::size_t kLongestName = 60;
constexpr double kLargestWhole = 9'007'199'254'740'992;  // up to here every whole number can be told from the next

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; }));
}

std::optional<double> number_of(const json::object& schema, std::string_view name) {
  const auto* found = schema.if_contains(name);
  return found != nullptr && found->is_number() ? std::optional(found->to_number<double>()) : std::nullopt;
}

class Check {
 public:
  void value(const json::object& schema, const json::value& given, const std::string& name) {
    const auto* type = schema.if_contains("type");
    const std::string_view wanted = type != nullptr && type->is_string() ? std::string_view(type->get_string()) : "";
    if (wanted == "string") {
      text(schema, given, name);
    } else if (wanted == "integer" || wanted == "number") {
      number(schema, given, name, wanted == "integer");
    } else if (wanted == "boolean") {
      if (!given.is_bool()) refuse(name + " must be true or false");
    } else if (wanted == "array") {
      array(schema, given, name);
    } else if (wanted == "object") {
      if (!given.is_object()) return refuse(name + " must be an object");
      object(schema, given.get_object(), name + ".");
    }
  }

  void object(const json::object& schema, const json::object& given, const std::string& prefix) {
    const auto* properties = schema.if_contains("properties");
    if (properties == nullptr) return;
    const auto& known = properties->get_object();
    for (const auto& [name, value] : given) {
      const auto* property = known.if_contains(name);
      if (property == nullptr) {
        refuse(fmt::format("unknown parameter: {}{} (it takes {})", prefix,
                           printable(std::string_view(name).substr(0, kLongestName)), names(known)));
      } else if (!value.is_null() || is_required(schema, name)) {
        this->value(property->get_object(), value, prefix + std::string(name));
      }
    }
    if (const auto* required = schema.if_contains("required")) {
      for (const auto& name : required->get_array()) {
        if (!given.contains(name.get_string())) refuse(prefix + std::string(name.get_string()) + " is missing");
      }
    }
  }

  [[nodiscard]] const std::vector<std::string>& problems() const { return problems_; }

 private:
  static bool is_required(const json::object& schema, std::string_view name) {
    const auto* required = schema.if_contains("required");
    return required != nullptr &&
           std::ranges::any_of(required->get_array(), [&](const json::value& one) { return one.get_string() == name; });
  }

  static std::string names(const json::object& known) {
    std::string text;
    for (const auto& [name, value] : known) text += (text.empty() ? "" : ", ") + std::string(name);
    return text.empty() ? "none" : text;
  }

  void text(const json::object& schema, const json::value& given, const std::string& name) {
    if (!given.is_string()) return refuse(name + " must be a string");
    const std::string_view text = given.get_string();
    if (const auto* choices = schema.if_contains("enum")) {
      const auto& list = choices->get_array();
      if (std::ranges::none_of(list, [&](const json::value& one) { return one.get_string() == text; })) {
        refuse(name + " must be one of " + json_text(list));
      }
    }
    const auto least = number_of(schema, "minLength");
    const auto most = number_of(schema, "maxLength");
    if (least && static_cast<double>(characters(text)) < *least) refuse(name + " must not be empty");
    if (most && static_cast<double>(text.size()) > *most && static_cast<double>(characters(text)) > *most) {
      refuse(fmt::format("{} is longer than {:.0f} characters", name, *most));
    }
  }

  void number(const json::object& schema, const json::value& given, const std::string& name, bool whole) {
    const char* kind = whole ? "a whole number" : "a number";
    if (!given.is_number()) return refuse(name + " must be " + kind);
    boost::system::error_code failed;
    const double number = given.to_number<double>(failed);
    if (failed || !std::isfinite(number) ||
        (whole && (number != std::floor(number) || std::abs(number) > kLargestWhole))) {
      return refuse(name + " must be " + kind);
    }
    const auto least = number_of(schema, "minimum");
    const auto most = number_of(schema, "maximum");
    if ((!least || number >= *least) && (!most || number <= *most)) return;
    if (least && most) return refuse(fmt::format("{} must be from {:g} to {:.0f}", name, *least, *most));
    refuse(least ? fmt::format("{} must be at least {:g}", name, *least)
                 : fmt::format("{} must be at most {:.0f}", name, *most));
  }

  void array(const json::object& schema, const json::value& given, const std::string& name) {
    if (!given.is_array()) return refuse(name + " must be an array");
    const auto most = number_of(schema, "maxItems");
    if (most && static_cast<double>(given.get_array().size()) > *most) {
      return refuse(fmt::format("{} has more than {:.0f} entries", name, *most));
    }
    const auto* items = schema.if_contains("items");
    if (items == nullptr) return;
    for (std::size_t i = 0; i < given.get_array().size() && problems_.size() < kMostNamed; ++i) {
      value(items->get_object(), given.get_array()[i], fmt::format("{}[{}]", name, i));
    }
  }

  void refuse(std::string problem) {
    if (problems_.size() < kMostNamed) problems_.push_back(std::move(problem));
  }

  std::vector<std::string> problems_;
};

}  // namespace

Api<json::object> check_arguments(const json::object& schema, const json::value& given) {
  if (!given.is_object()) return std::unexpected(bad_request("The arguments must be a JSON object."));
  Check check;
  check.object(schema, given.get_object(), "");
  if (!check.problems().empty()) {
    std::string message = "Invalid arguments: ";
    for (const auto& problem : check.problems()) {
      if (&problem != &check.problems().front()) message += "; ";
      message += problem;
    }
    return std::unexpected(bad_request(message + ".", "Correct the arguments and call the tool again."));
  }
  json::object checked;
  for (const auto& [name, property] : schema.at("properties").get_object()) {
    const auto* value = given.get_object().if_contains(name);
    if (value != nullptr && !value->is_null()) {
      checked[name] = *value;
    } else if (const auto* otherwise = property.get_object().if_contains("default")) {
      checked[name] = *otherwise;
    }
  }
  return checked;
}

}  // namespace hutch
