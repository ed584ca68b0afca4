#include "api/body_budget.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <deque>
#include <optional>

#include "api/json_fields.h"

namespace hutch {
namespace {

std::shared_ptr<BodyBudget> budget_of(std::size_t all) {
  return std::make_shared<BodyBudget>(BodyCaps{.all = all, .small = 10});
}

TEST(BodyBudget, AKeyHasHalfOfWhatOthersLeave) {
  const auto budget = budget_of(100);
  BodyBudget::Share first(budget, "a");
  BodyBudget::Share second(budget, "a");
  EXPECT_TRUE(first.grow_to(30));
  EXPECT_FALSE(second.grow_to(21));
  EXPECT_TRUE(second.grow_to(20));
  {
    BodyBudget::Share other(budget, "b");
    EXPECT_FALSE(other.grow_to(26));
    EXPECT_TRUE(other.grow_to(25));
    EXPECT_EQ(budget->used(), 75U);
    BodyBudget::Share third(budget, "c");
    EXPECT_FALSE(third.grow_to(13));
    EXPECT_TRUE(third.grow_to(12));
  }
  EXPECT_EQ(budget->used(), 50U);
}

TEST(BodyBudget, WhoHasMoreThanHalfOfWhatIsLeftByNowKeepsIt) {
  const auto budget = budget_of(100);
  BodyBudget::Share first(budget, "a");
  EXPECT_TRUE(first.grow_to(50));
  BodyBudget::Share other(budget, "b");
  EXPECT_TRUE(other.grow_to(25));
  EXPECT_TRUE(first.grow_to(50));
  EXPECT_FALSE(first.grow_to(51));
}

TEST(BodyBudget, SmallOnesAlwaysFit) {
  const auto budget = budget_of(100);
  BodyBudget::Share large(budget, "a");
  EXPECT_TRUE(large.grow_to(50));
  BodyBudget::Share small(budget, "a");
  EXPECT_TRUE(small.grow_to(10));
  EXPECT_FALSE(small.grow_to(11));
}

TEST(BodyBudget, IsThereAsLongAsAShareOfIt) {
  auto budget = budget_of(100);
  BodyBudget::Share share(budget, "a");
  budget.reset();
  EXPECT_TRUE(share.grow_to(50));
}

TEST(BodyBudget, CountsNoFewerValuesThanThereAre) {
  EXPECT_EQ(count_json_values("0"), 1U);
  EXPECT_EQ(count_json_values("[0,0,0]"), 4U);
  EXPECT_EQ(count_json_values(R"({"a":[1,2],"b":{}})"), 6U);
  EXPECT_EQ(count_json_values(R"(["a,b,c","\",[,",1])"), 4U);
  EXPECT_EQ(count_json_values(R"(["\\",",,,"])"), 3U);
}

// A request whose body comes in the pieces given.
class GivenBody final : public HttpExchange {
 public:
  explicit GivenBody(std::deque<std::string> pieces) : pieces_(std::move(pieces)) {
    request_.has_body = true;
    request_.headers.emplace("content-type", "application/json");
  }
  [[nodiscard]] const HttpRequest& request() const override { return request_; }
  net::awaitable<std::expected<std::string_view, BodyProblem>> read_some() override {
    if (pieces_.empty()) co_return std::string_view{};
    piece_ = std::move(pieces_.front());
    pieces_.pop_front();
    co_return std::string_view(piece_);
  }
  net::awaitable<bool> answer(Answer) override { co_return true; }
  net::awaitable<bool> begin(Answer, std::optional<std::uint64_t>) override { co_return true; }
  net::awaitable<bool> write(std::string_view) override { co_return true; }
  net::awaitable<bool> end() override { co_return true; }
  [[nodiscard]] bool answered() const override { return false; }
  [[nodiscard]] bool client_gone() const override { return false; }
  net::awaitable<std::unique_ptr<WebSocket>> upgrade() override { co_return nullptr; }

 private:
  HttpRequest request_;
  std::deque<std::string> pieces_;
  std::string piece_;
};

unsigned status_of(GivenBody& exchange) {
  unsigned status = 0;
  const auto read = [](GivenBody& from, unsigned& into) -> net::awaitable<void> {
    const auto body = co_await read_json(from, 64U << 20);
    into = body ? 200U : body.error().status;
  };
  net::io_context context;
  net::co_spawn(context, read(exchange, status), net::detached);
  context.run();
  return status;
}

TEST(JsonBodies, AreRefusedWhenTheirShareIsUsedUp) {
  const auto budget = budget_of(400);
  GivenBody exchange({R"({"a": ")" + std::string(150, 'x'), std::string(150, 'x') + "\"}"});
  exchange.bodies = budget;
  EXPECT_EQ(status_of(exchange), 503U);
  exchange.body_share.reset();
  EXPECT_EQ(budget->used(), 0U);
  GivenBody smaller({R"({"a": ")" + std::string(100, 'x'), "\"}"});
  smaller.bodies = budget;
  EXPECT_EQ(status_of(smaller), 200U);
}

TEST(JsonBodies, KeepTheirShareAfterTheyWereRead) {
  const auto budget = budget_of(400);
  GivenBody first({R"({"a": ")" + std::string(100, 'x') + "\"}"});
  GivenBody second({R"({"a": ")" + std::string(100, 'x') + "\"}"});
  first.bodies = second.bodies = budget;
  EXPECT_EQ(status_of(first), 200U);
  EXPECT_GE(budget->used(), 100U);
  EXPECT_EQ(status_of(second), 503U);
  first.body_share.reset();
  GivenBody third({R"({"a": ")" + std::string(100, 'x') + "\"}"});
  third.bodies = budget;
  EXPECT_EQ(status_of(third), 200U);
}

TEST(JsonBodies, CountForWhatTheyBecome) {
  const auto budget = budget_of(2'000);
  std::string zeros = "{\"a\": [0";
  for (int i = 0; i < 100; ++i) zeros += ",0";
  GivenBody exchange({zeros + "]}"});
  exchange.bodies = budget;
  EXPECT_EQ(status_of(exchange), 503U);
}

TEST(JsonBodies, MayNotBecomeManyTimesLarger) {
  std::string zeros = "{\"a\": [0";
  for (std::size_t i = 0; i < kMostJsonValues; ++i) zeros += ",0";
  GivenBody exchange({zeros + "]}"});
  EXPECT_EQ(status_of(exchange), 413U);
}

}  // namespace
}  // namespace hutch
