// SHA-256 in hexadecimal: fingerprints of definitions and files, not secrets.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace hutch {

// Feed it with update(), then call hex() once.
class Sha256 {
 public:
  Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  ~Sha256();

  void update(std::string_view bytes);
  [[nodiscard]] std::string hex();  // 64 lower-case digits; the object is spent afterwards

 private:
  struct State;
  std::unique_ptr<State> state_;
};

[[nodiscard]] std::string sha256_hex(std::string_view bytes);

}  // namespace hutch
