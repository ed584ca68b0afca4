"""Unit tests of the filter that bundles are given."""
import pathlib
import unittest

import seccomp

PROFILE = {
    "defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 38, "defaultErrno": "ENOSYS",
    "archMap": [{"architecture": "SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X86", "SCMP_ARCH_X32"]},
                {"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": ["SCMP_ARCH_ARM"]}],
    "syscalls": [
        {"names": ["read"], "action": "SCMP_ACT_ALLOW", "args": [], "includes": {}, "excludes": {}},
        {"names": ["arch_prctl"], "action": "SCMP_ACT_ALLOW", "includes": {"arches": ["amd64", "x32"]}},
        {"names": ["chroot"], "action": "SCMP_ACT_ALLOW", "includes": {"caps": ["CAP_SYS_CHROOT"]}},
        {"names": ["chroot"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1, "errno": "EPERM",
         "excludes": {"caps": ["CAP_SYS_CHROOT"]}},
        {"names": ["ptrace"], "action": "SCMP_ACT_ALLOW", "includes": {"minKernel": "4.8"}},
        {"names": ["breakpoint"], "action": "SCMP_ACT_ALLOW", "excludes": {"arches": ["amd64"]}},
        {"names": ["socket"], "action": "SCMP_ACT_ALLOW",
         "args": [{"index": 2, "value": 9, "valueTwo": 0, "op": "SCMP_CMP_NE"}]}]}


def rules(architecture: str = "amd64", kernel: str = "6.18.44-x") -> list[tuple[str, str]]:
    return [(rule["names"][0], rule["action"]) for rule in seccomp.convert(PROFILE, architecture, kernel)["syscalls"]]


class SeccompTest(unittest.TestCase):
    def test_what_needs_a_capability_is_refused(self) -> None:
        self.assertNotIn(("chroot", "SCMP_ACT_ALLOW"), rules())
        self.assertIn(("chroot", "SCMP_ACT_ERRNO"), rules())

    def test_rules_are_of_this_kind_of_machine(self) -> None:
        self.assertIn(("arch_prctl", "SCMP_ACT_ALLOW"), rules("amd64"))
        self.assertNotIn(("arch_prctl", "SCMP_ACT_ALLOW"), rules("arm64"))
        self.assertNotIn(("breakpoint", "SCMP_ACT_ALLOW"), rules("amd64"))
        self.assertIn(("breakpoint", "SCMP_ACT_ALLOW"), rules("arm64"))

    def test_rules_are_of_this_kernel(self) -> None:
        self.assertIn(("ptrace", "SCMP_ACT_ALLOW"), rules(kernel="4.19.0-1"))
        self.assertNotIn(("ptrace", "SCMP_ACT_ALLOW"), rules(kernel="4.4.0"))

    def test_a_bundle_gets_only_what_it_knows(self) -> None:
        filter = seccomp.convert(PROFILE, "amd64", "6.18")
        self.assertEqual((filter["defaultAction"], filter["defaultErrnoRet"]), ("SCMP_ACT_ERRNO", 38))
        self.assertEqual(filter["architectures"], ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"])
        for rule in filter["syscalls"]:
            self.assertLessEqual(set(rule), {"names", "action", "errnoRet", "args"})
        self.assertEqual(filter["syscalls"][0], {"names": ["read"], "action": "SCMP_ACT_ALLOW"})
        self.assertEqual(filter["syscalls"][-1]["args"][0]["index"], 2)

    def test_where_it_is_not_installed_there_is_none(self) -> None:
        self.assertIsNone(seccomp.default_filter(pathlib.Path("/nowhere/seccomp.json")))


if __name__ == "__main__":
    unittest.main()
