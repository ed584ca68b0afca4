"""What the operator can find out afterwards."""
from __future__ import annotations

import api_support
import support
from api_support import ApiScenario, Client

setUpModule, tearDownModule = api_support.begin, api_support.finish


class Audit(ApiScenario):
    def entries(self, query: str = "?limit=1000") -> list[dict]:
        return self.api.get("/v1/audit" + query).json["entries"]

    def actions(self, target: str) -> list[tuple]:
        return [(entry["action"], entry["key"], entry["detail"]) for entry in self.entries()
                if entry["target"] == target][::-1]

    def key(self, *words: str) -> support.Done:
        return support.home.call("key", "--data", api_support.server.data, *words)

    def test_what_is_done_with_keys_is_noted(self):
        first = api_support.server.new_client("audited")
        key = first.get("/v1/usage").json["key"]["id"]
        for what in ("rotate", "revoke"):
            self.assertEqual(self.key(what, key).code, 0)
        self.assertEqual(self.actions(key), [("key_created", "local", "audited"), ("key_rotated", "local", ""),
                                             ("key_revoked", "local", "")])
        self.assertNotEqual(self.key("revoke", "key_" + "0" * 24).code, 0)
        self.assertEqual(self.actions("key_" + "0" * 24), [])

    def test_sessions_and_refusals_are_noted_and_a_flood_is_counted(self):
        run_only = api_support.server.new_client("run only", "--scope", "run")
        key = run_only.get("/v1/usage").json["key"]["id"]
        with run_only.session() as session:
            pass
        self.assertEqual(self.actions(session.id), [("session_created", key, ""), ("session_ended", key, "deleted")])
        self.check_error(run_only.call("GET", "/v1/audit"), 403, "unauthorized", "forbidden")
        self.assertEqual(self.actions("/v1/audit"), [("request_refused", key, "forbidden")])
        for _ in range(250):
            Client(api_support.server, "hutch_x").call("GET", "/v1/templates", expect=401)
        noted = self.actions("/v1/templates")
        self.assertEqual(set(noted), {("request_refused", None, "bad_token")})
        self.assertLessEqual(len(noted), 200)  # 100 a minute, of which there are at most two

    def test_the_newest_come_first_in_pages(self):
        for number in range(3):
            self.key("create", "page %d" % number)
        every = [entry["number"] for entry in self.entries()]
        self.assertEqual(every, sorted(every, reverse=True))
        first = self.api.get("/v1/audit?limit=2").json
        second = self.entries("?limit=3&before=%d" % first["next"])
        made = [entry["detail"] for entry in first["entries"] + second if entry["action"] == "key_created"]
        self.assertEqual(made[:3], ["page 2", "page 1", "page 0"])
        self.assertIsNone(self.api.get("/v1/audit?limit=1000").json["next"])
        for query in ("?limit=0", "?limit=1001", "?before=x", "?nonsense=1"):
            self.assertEqual(self.api.call("GET", "/v1/audit" + query).status, 400)


if __name__ == "__main__":
    support.main()
