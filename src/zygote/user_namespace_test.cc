#include "zygote/user_namespace.h"

#include <gtest/gtest.h>

#include <optional>

namespace hutch {
namespace {

constexpr std::uint32_t kFirst = 1000;
constexpr std::uint32_t kFourPairs = 8;
constexpr std::uint32_t kStart = 2;  // the third pair

TEST(IdAllocator, PassesOverTheIdsOfALiveSandboxWhenItComesAround) {
  IdAllocator ids(kFirst, kFourPairs, kStart);
  const auto session = ids.next();
  ASSERT_TRUE(session);
  EXPECT_EQ(session->init_outside, kFirst + 4);
  EXPECT_EQ(session->runner_outside, kFirst + 5);
  for (int i = 0; i < 20; ++i) {
    const auto other = ids.next();
    ASSERT_TRUE(other) << i;
    EXPECT_NE(other->init_outside, session->init_outside) << i;
  }
}

TEST(IdAllocator, GivesIdsBackWithTheLastCopy) {
  IdAllocator ids(kFirst, 2, 0);
  std::optional<IdMap> copy;
  {
    const auto only = ids.next();
    ASSERT_TRUE(only);
    copy = *only;
  }
  const auto refused = ids.next();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::limit);
  copy.reset();
  EXPECT_TRUE(ids.next());
}

TEST(IdAllocator, GivesEverySandboxTheOneIdThatThereIs) {
  IdAllocator ids(kFirst, 0, 0);
  for (int i = 0; i < 2; ++i) {
    const auto same = ids.next();
    ASSERT_TRUE(same);
    EXPECT_EQ(same->init_outside, kOnlyId);
    EXPECT_EQ(same->groups(), privileges::Groups::may_stay);
  }
  IdAllocator own(kFirst, kFourPairs, 0);
  EXPECT_EQ(own.next()->groups(), privileges::Groups::must_go);
}

}  // namespace
}  // namespace hutch
