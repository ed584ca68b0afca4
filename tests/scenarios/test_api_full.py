"""A daemon in which every place is taken."""
from __future__ import annotations

import support
from test_api_restart import Restart, setUpModule, tearDownModule  # noqa: F401


class Full(Restart):
    environment = {"HUTCH_ENGINE_MAX_RUNNING": "1", "HUTCH_ENGINE_MAX_WAITING": "1"}

    def test_a_daemon_without_a_free_place_says_when_to_come_back(self):
        running = [self.client.launch("import time; time.sleep(30)", 200) for _ in range(2)]
        answer = self.client.call("POST", "/v1/run", {"code": "1", "template": "bare"})
        error = self.check_error(answer, 503, "capacity", "no_slots")
        self.assertTrue(error["retryable"] and error["retry_after_ms"] > 0)
        for run in running:
            self.client.post("/v1/runs/%s/cancel" % run, expect=202)
            self.assertEqual(self.client.get("/v1/runs/%s?wait_ms=9000" % run).json["status"], "cancelled")
        self.assertEqual(self.client.run("print(1)")["stdout"], "1\n")
        metrics = self.client.get("/metrics").body.decode()
        self.assertNotIn('hutch_runs_total{status="error"}', metrics, "what was refused never was a run")

    def test_what_waits_for_a_place_can_be_cancelled(self):
        with self.client.session() as session:
            session.run("x = 1")
            running = self.client.launch("import time; time.sleep(60)", 200)
            cell = session.run("x = 2", expect=202, wait_ms=200)
            self.cancelled(cell["execution_id"])
            self.cancelled(self.client.launch("print('never')", 200))
            self.assertEqual(self.client.get("/v1/runs/" + running).json["status"], "running")
            self.cancelled(running)
            after = session.run("print(x)")
            self.assertEqual((after["stdout"], after["execution_count"]), ("1\n", 2))

    def test_a_session_can_end_while_its_run_waits_for_a_place(self):
        session = self.client.session()
        running = self.client.launch("import time; time.sleep(60)", 200)
        cell = session.run("1", expect=202, wait_ms=200)["execution_id"]
        self.client.delete(session.at)
        self.assertEqual(self.client.get("/v1/runs/%s?wait_ms=9000" % cell).json["status"], "cancelled")
        self.cancelled(running)

    def cancelled(self, run: str) -> None:
        self.client.post("/v1/runs/%s/cancel" % run, expect=202)
        after = self.client.get("/v1/runs/%s?wait_ms=9000" % run).json
        self.assertEqual((after["status"], after["stdout"]), ("cancelled", ""))


if __name__ == "__main__":
    support.main()
