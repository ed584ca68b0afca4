#include "api/tools/packages.h"

#include <gtest/gtest.h>

namespace hutch {
namespace {

using Names = std::vector<std::string>;

TEST(Packages, AreComparedAsTheIndexDoes) {
  EXPECT_EQ(normal_name("Scikit_Learn[all]>=1.2"), "scikit-learn");
  EXPECT_EQ(normal_name("zope..interface"), "zope-interface");
  EXPECT_EQ(normal_name(""), "");
}

TEST(Packages, OfTheStandardLibraryNeedNoInstallation) {
  EXPECT_TRUE(is_standard_library("json"));
  EXPECT_TRUE(is_standard_library("os.path"));
  EXPECT_FALSE(is_standard_library("stats"));
  EXPECT_EQ(missing_packages({"json", "pandas", "torch"}, {"Pandas==2.2"}), Names{"torch"});
}

TEST(Packages, ThatAreNotOnTheListAreNamed) {
  EXPECT_EQ(not_allowed({"numpy", "evil", "worse==1"}, {"numpy"}), (Names{"evil", "worse==1"}));
}

}  // namespace
}  // namespace hutch
