#include "zygote/template_root.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <string_view>
#include <vector>

namespace hutch {
namespace {

constexpr unsigned kSystemFlags = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
constexpr unsigned kDeviceFlags = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC;

// A piece of the host, detached from where it was, not yet where it goes.
struct Piece {
  UniqueFd mount;
  std::string target;  // relative to the new root
  bool is_directory = true;
};

Result<void> set_flags(int mount, unsigned flags, unsigned how) {
  mount_attr attributes{};
  attributes.attr_set = flags;
  attributes.propagation = MS_PRIVATE;
  if (::mount_setattr(mount, "", AT_EMPTY_PATH | how, &attributes, sizeof(attributes)) != 0) {
    return system_error(errno).during("mount_setattr");
  }
  return {};
}

Result<Piece> take(const std::string& source, const std::string& target, unsigned flags) {
  Piece piece;
  piece.mount.reset(
      ::open_tree(AT_FDCWD, source.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_SYMLINK_NOFOLLOW));
  if (!piece.mount) return system_error(errno).during("take " + source + " into the sandbox's root");
  struct stat status{};
  if (::fstat(piece.mount.get(), &status) != 0) return system_error(errno).during("stat " + source);
  piece.is_directory = S_ISDIR(status.st_mode);
  piece.target = target.substr(target.find_first_not_of('/'));
  HUTCH_TRY(set_flags(piece.mount.get(), flags, AT_RECURSIVE));
  return piece;
}

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

// Everything of the host that the root shows, opened before the host disappears.
Result<std::vector<Piece>> take_pieces(const Template& source) {
  std::vector<Piece> pieces;
  const auto add = [&](const std::string& path, const std::string& target, unsigned flags) -> Result<void> {
    HUTCH_TRY(auto piece, take(path, target, flags));
    pieces.push_back(std::move(piece));
    return {};
  };
  HUTCH_TRY(add("/usr", "/usr", kSystemFlags));
  for (const std::string name : {"/bin", "/sbin", "/lib", "/lib32", "/lib64"}) {
    struct stat status{};
    if (::lstat(name.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) HUTCH_TRY(add(name, name, kSystemFlags));
  }
  // What programs below /usr reach through /etc: links between libraries, fonts, the interpreter's site files.
  for (const std::string name : {"/etc/alternatives", "/etc/fonts", "/etc/python3", "/etc/python3.10",
                                 "/etc/python3.11", "/etc/python3.12", "/etc/python3.13", "/etc/python3.14"}) {
    if (exists(name)) HUTCH_TRY(add(name, name, kSystemFlags));
  }
  for (const std::string name : {"null", "zero", "full", "random", "urandom"}) {
    HUTCH_TRY(add("/dev/" + name, "/dev/" + name, kDeviceFlags));
  }
  for (const auto& bind : source.binds) HUTCH_TRY(add(bind.source, bind.target, kSystemFlags));
  return pieces;
}

Result<void> make_directories(int root, const std::string& path) {
  for (std::size_t slash = 0; slash != std::string::npos;) {
    slash = path.find('/', slash + 1);
    const std::string part = path.substr(0, slash);
    if (::mkdirat(root, part.c_str(), 0755) != 0 && errno != EEXIST) {
      return system_error(errno).during("mkdir /" + part);
    }
  }
  return {};
}

Result<void> write_file(int root, const std::string& path, std::string_view text) {
  const UniqueFd file{::openat(root, path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644)};
  if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return system_error(errno).during("write /" + path);
  }
  return {};
}

// Without a detour through our own memory. A file that the host does not have is not there inside either.
Result<void> copy_host_file(int root, const std::string& path) {
  const UniqueFd from{::open(("/" + path).c_str(), O_RDONLY | O_CLOEXEC)};
  if (!from) return {};
  const UniqueFd to{::openat(root, path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644)};
  ssize_t copied = to ? 1 : -1;
  while (copied > 0) copied = ::sendfile(to.get(), from.get(), nullptr, 1U << 30);
  if (copied < 0) return system_error(errno).during("copy /" + path);
  return {};
}

// The files of /etc that programs expect, none of them the host's own accounts or names.
Result<void> write_skeleton(int root) {
  for (const std::string path : {"etc", "dev/shm", "proc", "tmp", "workspace", "opt/hutch", "var/tmp"}) {
    HUTCH_TRY(make_directories(root, path));
  }
  HUTCH_TRY(write_file(root, "etc/passwd",
                       "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n"
                       "hutch:x:1000:1000:hutch:/tmp:/bin/sh\n"
                       "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"));
  HUTCH_TRY(write_file(root, "etc/group", "root:x:0:\nhutch:x:1000:\nnogroup:x:65534:\n"));
  HUTCH_TRY(write_file(root, "etc/hosts", "127.0.0.1 localhost hutch\n::1 localhost\n"));
  HUTCH_TRY(write_file(root, "etc/hostname", "hutch\n"));
  HUTCH_TRY(write_file(root, "etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"));
  for (const std::string path : {"etc/ld.so.cache", "etc/localtime", "etc/mime.types"}) {
    HUTCH_TRY(copy_host_file(root, path));
  }
  for (const std::string name : {"bin", "sbin", "lib", "lib32", "lib64"}) {
    std::array<char, 256> target{};
    const ssize_t size = ::readlink(("/" + name).c_str(), target.data(), target.size() - 1);
    if (size > 0 && ::symlinkat(target.data(), root, name.c_str()) != 0) {
      return system_error(errno).during("link /" + name);
    }
  }
  if (::symlinkat("/proc/self/fd", root, "dev/fd") != 0) return system_error(errno).during("link /dev/fd");
  for (const auto& [target, name] :
       {std::pair{"/proc/self/fd/0", "dev/stdin"}, std::pair{"/proc/self/fd/1", "dev/stdout"},
        std::pair{"/proc/self/fd/2", "dev/stderr"}}) {
    if (::symlinkat(target, root, name) != 0) return system_error(errno).during("link /dev");
  }
  return {};
}

Result<void> place(int root, const Piece& piece) {
  if (piece.is_directory) {
    HUTCH_TRY(make_directories(root, piece.target));
  } else {
    HUTCH_TRY(make_directories(root, piece.target.substr(0, piece.target.rfind('/'))));
    HUTCH_TRY(write_file(root, piece.target, ""));
  }
  if (::move_mount(piece.mount.get(), "", root, piece.target.c_str(), MOVE_MOUNT_F_EMPTY_PATH) != 0) {
    return system_error(errno).during("mount /" + piece.target);
  }
  return {};
}

// Runs in a child of its own, whose mount namespace becomes the template's.
Result<void> build(const Template& source) {
  if (::unshare(CLONE_NEWNS) != 0) return system_error(errno).during("new mount namespace");
  HUTCH_TRY(const auto pieces, take_pieces(source));
  const UniqueFd fs{::fsopen("tmpfs", FSOPEN_CLOEXEC)};
  if (!fs || ::fsconfig(fs.get(), FSCONFIG_SET_STRING, "mode", "0755", 0) != 0 ||
      ::fsconfig(fs.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) {
    return system_error(errno).during("make the root");
  }
  const UniqueFd mount{::fsmount(fs.get(), FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)};
  // Any directory will do to hang the root on; this namespace is ours alone and forgets the host in a moment.
  if (!mount || ::move_mount(mount.get(), "", AT_FDCWD, "/tmp", MOVE_MOUNT_F_EMPTY_PATH) != 0) {
    return system_error(errno).during("mount the root");
  }
  HUTCH_TRY(write_skeleton(mount.get()));
  for (const auto& piece : pieces) HUTCH_TRY(place(mount.get(), piece));
  HUTCH_TRY(set_flags(mount.get(), kSystemFlags, 0));

  if (::fchdir(mount.get()) != 0 || ::syscall(SYS_pivot_root, ".", ".") != 0 || ::umount2(".", MNT_DETACH) != 0 ||
      ::chdir("/") != 0) {
    return system_error(errno).during("leave the host's root");
  }
  return {};
}

}  // namespace

Result<RootBirth> RootBirth::begin(const Template& source) {
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) return system_error(errno);
  RootBirth birth;
  birth.name_ = source.name;
  birth.socket_.reset(sockets[0]);
  const UniqueFd theirs{sockets[1]};
  birth.child_ = ::fork();
  if (birth.child_ < 0) return system_error(errno).during("fork");
  if (birth.child_ == 0) {
    const auto built = build(source);
    const std::string answer = built ? "ok" : built.error().message;
    [[maybe_unused]] const auto sent = ::write(theirs.get(), answer.data(), answer.size());
    birth.socket_.reset();
    char wait = 0;
    [[maybe_unused]] const auto got = ::read(theirs.get(), &wait, 1);  // until the keeper holds the namespace
    ::_exit(0);
  }
  return birth;
}

Result<UniqueFd> RootBirth::finish() {
  std::string answer(1024, '\0');
  const ssize_t size = ::read(socket_.get(), answer.data(), answer.size());
  answer.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  UniqueFd mounts;
  if (answer == "ok") {
    mounts.reset(::open(("/proc/" + std::to_string(child_) + "/ns/mnt").c_str(), O_RDONLY | O_CLOEXEC));
    if (!mounts) answer = std::string("open the mount namespace: ") + std::strerror(errno);
  }
  socket_.reset();  // it goes, and the keeper's loop reaps it
  if (!mounts) return make_error(ErrorCode::system, answer).during("build the root of template " + name_);
  return mounts;
}

}  // namespace hutch
