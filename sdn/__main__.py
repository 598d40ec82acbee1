"""The controller: `python3 sdn --openflow HOST:PORT --listen 127.0.0.1:PORT`. See docs/sdn.md."""

import openflow

asked = openflow.parser("Controller that installs rules of netalytics on Open vSwitch, next to other forwarding.")
asked.add_argument("--listen", metavar="LOOPBACK:PORT", default="127.0.0.1:8081", help="loopback address of the HTTP interface for mirror rules (%(default)s)")
asked.add_argument("--token-file", metavar="FILE", required=True, help="token of requests; created with mode 600 if the file does not exist")
openflow.run("app", asked.parse_args())
