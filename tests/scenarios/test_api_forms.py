"""Forms with several files: all of them are stored, or none is."""
from __future__ import annotations

import ast
import contextlib

import api_support
import support
from api_support import ApiScenario, form

LARGEST = 600 << 10


def setUpModule() -> None:
    api_support.begin(env={"HUTCH_SERVE_MAX_UPLOAD": str(LARGEST)})


tearDownModule = api_support.finish


class Forms(ApiScenario):
    def setUp(self) -> None:
        self.session = self.api.session(limits={"scratch": 1 << 20, "inodes": 64})
        self.addCleanup(self.session.__exit__)
        self.up = self.session.file("up")
        self.api.put(self.up + "/old", b"before", 201)
        self.api.post(self.up + "/directory", {"operation": "mkdir"}, 201)
        self.there = {"up/directory": None, "up/old": b"before"}

    def content(self) -> dict[str, bytes | int | None]:
        """As the program sees it: hidden files, too, and of large ones the size."""
        code = ("import os\nfound = {}\nfor here, directories, files in os.walk('.'):\n"
                "  for name in directories: found[os.path.relpath(os.path.join(here, name))] = None\n"
                "  for name in files:\n    path = os.path.relpath(os.path.join(here, name))\n"
                "    found[path] = size if (size := os.path.getsize(path)) > 100 else open(path, 'rb').read()\nprint(found)")
        found = ast.literal_eval(self.session.run(code)["stdout"])
        found.pop("up", None)
        return found

    def refuse(self, *parts: tuple[str, bytes]) -> api_support.Answer:
        body, headers = form(*parts)
        answer = self.api.call("POST", self.up, body=body, headers=headers)
        self.assertEqual(self.content(), self.there)
        return answer

    def test_all_of_them_appear_and_replace(self) -> None:
        big = bytes(range(256)) * 1024
        body, headers = form(("old", b"after"), ("new/deep/f", big), ("g", b""))
        entries = self.api.call("POST", self.up, body=body, headers=headers, expect=201).json["entries"]
        self.assertEqual([(entry["path"], entry["size"], entry["mode"]) for entry in entries],
                         [("up/old", 5, "0644"), ("up/new/deep/f", len(big), "0644"), ("up/g", 0, "0644")])
        self.assertEqual(self.content(), {"up/directory": None, "up/old": b"after", "up/new": None, "up/new/deep": None,
                                          "up/new/deep/f": len(big), "up/g": b""})

    def test_one_that_is_refused_takes_the_others_along(self) -> None:
        for bad, status, code in (("../x", 400, "invalid_path"), ("/etc/x", 400, "invalid_path"), ("", 400, None),
                                  ("directory", 409, "is_directory"), ("old/x", 400, "invalid_path"),
                                  ("new", 409, "is_directory")):
            with self.subTest(bad):
                answer = self.refuse(("old", b"after"), ("new/f", b"x"), (bad, b"x"), ("last", b"x"))
                self.assertEqual(answer.status, status, answer)
                if code:
                    self.assertEqual(answer.error["code"], code)
                self.assertNotIn("Stored", answer.error["message"])
        body, headers = form(("old", b"after"), ("x", b"x"))
        answer = self.api.call("POST", self.up, body=body.replace(b'; filename="x"', b""), headers=headers)
        self.assertEqual(answer.status, 400)
        self.assertEqual(self.content(), self.there)

    def test_what_does_not_fit_takes_the_others_along(self) -> None:
        self.there["fill"] = 512 << 10
        self.api.put(self.session.file("fill"), bytes(512 << 10), 201)
        answer = self.refuse(("old", b"after"), ("first", b"x" * 1000), ("second", b"x" * (560 << 10)))
        self.check_error(answer, 507, "resource_limit", "disk_full")
        self.api.delete(self.session.file("fill"))
        del self.there["fill"]
        answer = self.refuse(("old", b"after"), *(("f%d" % number, b"") for number in range(70)))
        self.check_error(answer, 507, "resource_limit", "disk_full")
        body, headers = form(("old", b"after"), ("second", b"x" * LARGEST))
        for sent in (body, iter([body])):  # the second in chunks: nobody knows how long it is
            answer = self.api.call("POST", self.up, body=sent, headers=headers)
            self.check_error(answer, 413, "invalid_request", "too_large")
            self.assertEqual(self.content(), self.there)

    def test_one_that_breaks_off_leaves_nothing(self) -> None:
        body, headers = form(("old", b"after"), ("new/f", b"x" * 1000), ("second", b"y" * 200_000))
        for cut in (body[:-1000], body[:-4], body[:150]):
            answer = self.api.call("POST", self.up, body=cut, headers=headers)
            self.assertEqual(answer.status, 400, answer)
            self.assertEqual(self.content(), self.there)
        with contextlib.closing(self.api.connect()) as connection:
            connection.putrequest("POST", self.up)
            for name, value in {**headers, "Authorization": "Bearer " + self.api.key,
                                "Content-Length": str(len(body))}.items():
                connection.putheader(name, value)
            connection.endheaders(body[:-100_000])
            self.assertTrue(support.settle(lambda: len(self.content()) > len(self.there)), "it has arrived, and is hidden")
            self.assertEqual(self.api.get(self.up + "/old").body, b"before")
        self.assertTrue(support.settle(lambda: self.content() == self.there))


if __name__ == "__main__":
    support.main()
