#include "zygote/heap_image.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace hutch {
namespace {

using memory_map::kPage;

// What a child finds in a page, or that it has none.
enum class Found : std::uint8_t { value, zero, nothing, no_image };

char* anonymous_page(int flags) {
  void* page = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
  return page == MAP_FAILED ? nullptr : static_cast<char*>(page);
}

Found look_at(const char* page) {
  if (::msync(const_cast<char*>(page), kPage, MS_ASYNC) != 0) return Found::nothing;
  return *page == 0 ? Found::zero : Found::value;
}

int wait_for(pid_t child) {
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << status;
  return WEXITSTATUS(status);
}

// A process makes its forks cheap and forks: what its child finds in the page. In a process of its own, because from
// then on all its memory is that of the image.
Found found_by_child(char* page) {
  *page = 'x';
  const pid_t zygote = ::fork();
  if (zygote == 0) {
    *page = 'x';  // ours: what is wiped was so when we were born
    if (heap_image::make_fork_cheap() == 0) ::_exit(static_cast<int>(Found::no_image));
    const pid_t child = ::fork();
    if (child == 0) ::_exit(static_cast<int>(look_at(page)));
    ::_exit(wait_for(child));
  }
  return static_cast<Found>(wait_for(zygote));
}

TEST(HeapImage, HandsOrdinaryMemoryOn) {
  char* page = anonymous_page(MAP_PRIVATE);
  ASSERT_NE(page, nullptr);
  EXPECT_EQ(found_by_child(page), Found::value);
  ::munmap(page, kPage);
}

TEST(HeapImage, LeavesWhatForkWipesToTheKernel) {
  char* page = anonymous_page(MAP_PRIVATE);
  ASSERT_NE(page, nullptr);
  ASSERT_EQ(::madvise(page, kPage, MADV_WIPEONFORK), 0);
  EXPECT_EQ(found_by_child(page), Found::zero);
  ::munmap(page, kPage);
}

TEST(HeapImage, LeavesWhatTheKernelMayDrop) {
  constexpr int kDroppable = 8;  // MAP_DROPPABLE, Linux 6.11
  char* page = anonymous_page(kDroppable);
  if (page == nullptr) GTEST_SKIP() << "this kernel has no droppable memory";
  EXPECT_EQ(found_by_child(page), Found::zero);
  ::munmap(page, kPage);
}

}  // namespace
}  // namespace hutch
