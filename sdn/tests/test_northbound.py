"""The HTTP interface with simulated switches."""

import http.client
import json
import tempfile
import threading
import unittest
from pathlib import Path

from fake_network import FakeSwitch
from northbound import MOST_BYTES, Northbound, read_token
from tests.test_desired import BACK, MIRROR, OURS

TOKEN = "0123456789abcdef"
RULES = "/v1/switches/0000000000000001/rules"
SET = OURS | {"generation": 4, "lease": 10, "rules": [MIRROR]}
QUERY = "?cookie=0x6e61000000000000&mask=0xffff000000000000"


class Interface(unittest.TestCase):
    def setUp(self):
        self.switch = FakeSwitch([1, 2])
        self.server = Northbound("127.0.0.1:0", {1: self.switch, 2: FakeSwitch([1], is_connected=False)}, lambda: self.switch.now, TOKEN)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)

    def ask(self, method, path, body=None, **headers):
        connection = http.client.HTTPConnection(*self.server.server_address, timeout=10)
        self.addCleanup(connection.close)
        headers = {"Authorization": f"Bearer {TOKEN}"} | headers
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())

    def test_from_a_set_to_its_end(self):
        self.assertEqual(self.ask("GET", "/v1/health")[1] | {"boot": 0}, {"status": "ok", "boot": 0, "switches": 1})
        self.assertEqual(self.ask("GET", "/v1/capabilities")[1]["openflow"], "1.3")
        self.assertEqual(self.ask("PUT", RULES, SET), (200, {"generation": 4, "changes": 1}))
        rule = MIRROR | {"table": 0, "idle_timeout": 0, "hard_timeout": 10, "packets": 0, "bytes": 0, "seconds": 0}
        self.assertEqual(self.ask("GET", RULES + QUERY), (200, [rule]))
        self.assertEqual(self.ask("GET", RULES + "?cookie=0x1&mask=0xff")[1], [rule])
        self.assertEqual(self.ask("GET", RULES + "?cookie=0x2&mask=0xff")[1], [])
        self.assertEqual(self.ask("POST", "/v1/switches/0000000000000001/renew", OURS), (200, {"renewed": 1}))
        described = {"datapath": "0000000000000001", "state": "connected", "sets": [OURS | {"generation": 4, "lease": 10, "flows": 0}], "flows_refused": 0}
        self.assertEqual(self.ask("GET", "/v1/switches")[1][0], described)
        self.assertEqual(self.ask("GET", "/v1/switches/0000000000000001")[1]["ports"], [{"number": 1, "name": "port1"}, {"number": 2, "name": "port2"}])
        self.assertEqual(self.ask("DELETE", RULES + QUERY), (200, {}))
        self.assertEqual(self.ask("GET", RULES), (200, []))
        self.assertEqual(self.ask("POST", "/v1/switches/0000000000000001/renew", OURS)[0], 404)

    def test_what_is_refused(self):
        self.ask("PUT", RULES, SET)
        for status, method, path, body, headers in [
            (404, "GET", "/", None, {}),
            (404, "GET", "/v1/switches/0000000000000009/rules", None, {}),
            (404, "GET", "/v1/switches/1/rules", None, {}),
            (503, "GET", "/v1/switches/0000000000000002/rules", None, {}),
            (503, "PUT", "/v1/switches/0000000000000002/rules", SET, {}),
            (409, "PUT", RULES, SET | {"generation": 3}, {}),
            (400, "PUT", RULES, SET | {"rules": [MIRROR | {"actions": "fly"}]}, {}),
            (400, "PUT", RULES, [], {}),
            (400, "DELETE", RULES, None, {}),
            (400, "DELETE", RULES + "?cookie=0x0&mask=0x0", None, {}),
            (400, "DELETE", RULES + "?cookie=0x0&mask=0x1", None, {}),
            (400, "DELETE", RULES + "?cookie=0x0&mask=0xffff000000000000", None, {}),
            (400, "DELETE", RULES + "?cookie=0x6e61000000000000&mask=0xfffe000000000000", None, {}),
            (400, "PUT", RULES, SET | {"cookie": "0x4e41000000000000", "rules": []}, {}),
            (401, "GET", RULES, None, {"Authorization": ""}),
            (401, "GET", "/v1/switches", None, {"Authorization": "Bearer"}),
            (401, "DELETE", RULES + QUERY, None, {"Authorization": f"Bearer {TOKEN}0"}),
            (401, "PUT", RULES, SET | {"generation": 9}, {"Authorization": f"Basic {TOKEN}"}),
            (411, "POST", "/v1/switches/0000000000000001/renew", None, {"Transfer-Encoding": "chunked"}),
            (413, "PUT", RULES, None, {"Content-Length": str(MOST_BYTES + 1)}),
            (403, "GET", "/v1/health", None, {"Host": "rebound.example"}),
        ]:
            with self.subTest((status, method, path)):
                self.assertEqual(self.ask(method, path, body, **headers)[0], status)
        self.assertEqual(len(self.ask("GET", RULES)[1]), 1, "the requests changed nothing")
        with self.assertRaises(SystemExit):
            Northbound("192.0.2.1:0", {}, None, TOKEN)

    def test_health_needs_no_token(self):
        self.assertEqual(self.ask("GET", "/v1/health", Authorization="")[0], 200)

    def test_a_token_file_is_made_for_its_owner_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "token"
            token = read_token(path)
            self.assertEqual((read_token(path), path.stat().st_mode & 0o777), (token, 0o600))
            path.chmod(0o640)
            self.assertRaises(SystemExit, read_token, path)
            path.chmod(0o600)
            path.write_text("short\n")
            self.assertRaises(SystemExit, read_token, path)
            self.assertRaises(SystemExit, read_token, Path(folder) / "none" / "token")

    def test_a_body_that_is_no_json(self):
        for body in [b"{", b"\xff", b"[" * 100_000]:
            connection = http.client.HTTPConnection(*self.server.server_address, timeout=10)
            self.addCleanup(connection.close)
            connection.request("PUT", RULES, body, {"Authorization": f"Bearer {TOKEN}"})
            response = connection.getresponse()
            self.assertEqual((response.status, response.read()), (400, b'{"error": "the body is not JSON"}\n'))

    def test_a_set_takes_the_place_of_the_one_before(self):
        self.ask("PUT", RULES, SET)
        self.assertEqual(self.ask("PUT", RULES, SET | {"generation": 5, "rules": [BACK]})[1]["changes"], 2)
        self.assertEqual([rule["match"] for rule in self.ask("GET", RULES)[1]], ["tcp,tp_src=80"])


if __name__ == "__main__":
    unittest.main()
