//! The longer texts of the help. The examples work on a capture that comes with the source and with packages.

/// Introduction to the program.
pub const ABOUT: &str = "\
Response times, errors and rankings of services, from packets alone.

netalytics runs SQL-like queries over packets of captures or network interfaces: it reassembles flows, parses their \
protocols, and computes statistics. Applications need no agent and no log.";

/// Shown without arguments, and below the help.
pub const EXAMPLES: &str = "\
Examples (in the source, or in /usr/share/doc/netalytics of a package):
  How fast is each page of a shop?
    netalytics query \"PARSE http PROCESS (diff-group: group=url_template)\" -r captures/shop/in.pcap

  Which SQL statements are the slowest, on average?
    netalytics query \"PARSE mysql_query PROCESS (avg-top-k: k=3)\" -r captures/shop/in.pcap

  Which cache keys are missed? As JSON lines:
    netalytics query \"PARSE memcached_get WHERE hit = false\" -r captures/shop/in.pcap --format jsonl

  What does a capture contain?
    netalytics overview -r captures/shop/in.pcap

Help on a command: netalytics query -h (common flags), netalytics query --help (all)
Limits and tuning: netalytics config
Parsers:           netalytics parsers
Processors:        netalytics processors
A team's server:   netalytics serve --demo";

/// Description of `query`.
pub const QUERY: &str = "\
Answer a query from captures (-r), from live packets of a network interface (-i), or by the agents of a server (--server).

    PARSE parsers [FROM clients] [TO servers] [WHERE condition] [SINCE 2h] [UNTIL time] [LIMIT 90s | 5000p] [SAMPLE 0.1] [PROCESS (processor), …]

PARSE selects the parsers (see `netalytics parsers`), PROCESS the statistics (see `netalytics processors`); without \
PROCESS the result is the tuples. `-h` shows the common flags, `--help` all flags, `netalytics config` limits and tuning.

Results go to standard output, messages to standard error. Exit code: 0 success; 1 failure at run time (the result may \
be incomplete); 2 invalid query or flags.

Live capture requires CAP_NET_RAW; the program drops its privileges after the capture is opened. Ctrl-C ends the \
capture and prints the open windows; a second Ctrl-C, at least a second later, ends the program at once.";

/// Below the help of `query`.
pub const QUERY_EXAMPLES: &str = "\
Examples:
  netalytics query \"PARSE http TO *:80 PROCESS (top-k: k=10, key=url)\" -r captures/shop/in.pcap
  netalytics query \"PARSE http WHERE status >= 500\" -r monday.pcap.gz --format csv -o errors.csv
  tcpdump -w - port 3306 | netalytics query \"PARSE mysql_query PROCESS (diff-group: w=10s)\" -r -
  netalytics query \"PARSE http PROCESS (diff-group: group=url_template, w=10s)\" -i eth0 tcp port 80
  netalytics query -f slow.nq -r captures/shop/in.pcap --summary-json summary.json
  netalytics query \"PARSE http PROCESS (diff-group: group=url_template, w=10s)\" --server http://127.0.0.1:7979 --on role=web";

/// Below the help of `overview`.
pub const OVERVIEW_EXAMPLES: &str = "\
Examples:
  netalytics overview -r captures/shop/in.pcap
  netalytics overview -i eth0 --for 30s
  netalytics overview -r captures/shop/in.pcap --format json";

/// Below the help of `map`.
pub const MAP_EXAMPLES: &str = "\
Examples:
  netalytics map -r captures/shop/in.pcap
  netalytics map -i eth0 --for 30s
  netalytics map -r captures/shop/in.pcap --format dot | dot -Tsvg > map.svg";

/// Below the help of `report`.
pub const REPORT_EXAMPLES: &str = "\
Examples:
  netalytics report \"PARSE http PROCESS (diff-group: group=url_template, w=100ms)\" -r captures/shop/in.pcap -o finding.html
  netalytics report -r captures/shop/in.pcap -o overview.html
  netalytics report \"PARSE mysql_query PROCESS (group-hist: group=fingerprint)\" -r captures/shop/in.pcap --format svg -o spread.svg";

/// Below the help of `compare`.
pub const COMPARE_EXAMPLES: &str = "\
Examples:
  netalytics compare \"PARSE http PROCESS (diff-group: group=url_template)\" -r after.pcap --baseline before.pcap
  netalytics compare \"PARSE http PROCESS (group-count-success: group=host)\" -r after/ --baseline before/ --format jsonl
  netalytics query \"PARSE http SINCE 1h BASELINE 1d PROCESS (diff-group: group=url_template)\" -r recording";

/// Below the help of `check`.
pub const CHECK_EXAMPLES: &str = "\
Examples:
  netalytics check \"PARSE http PROCESS (diff-group: group=url_template)\" -r captures/shop/in.pcap --assert 'p99 < 200ms'
  netalytics check \"PARSE http PROCESS (group-success: group=host)\" -r captures/shop/in.pcap --assert 'success > 90%' --assert 'rows > 0'
  netalytics check \"PARSE http PROCESS (diff)\" -r after.pcap --baseline before.pcap --assert 'p99 < 1.2 * baseline.p99' --report junit.xml

Exit code: 0 all assertions are true; 1 an assertion is false or an input is unreadable; 2 invalid query, assertion or flags.";

/// Below the help of `record`.
pub const PUBLISH_EXAMPLES: &str = "\
Examples:
  Send every HTTP request that a host captures to Kafka, for any query
      netalytics publish 'PARSE http' -i eth0 --kafka kafka:9092
  Sample flows while the brokers or the consumers are too slow
      netalytics publish 'PARSE http SAMPLE auto' -i eth0 --kafka kafka:9092
  Send pre-aggregated groups only; read them with the same query
      netalytics publish 'PARSE http PROCESS (top-k: k=10, key=url, w=10s)' -i eth0 --kafka kafka:9092
      netalytics query   'PARSE http PROCESS (top-k: k=10, key=url, w=10s)' --kafka kafka:9092";

pub const RECORD_EXAMPLES: &str = "\
Examples:
  netalytics record \"PARSE http\" -r captures/shop/in.pcap -o recording
  netalytics query \"PARSE http PROCESS (diff-group: group=url_template)\" -r recording
  netalytics record \"PARSE mysql_query\" -i eth0 -o /var/log/sql --rotate 1h,1GB
  netalytics record \"PARSE http TO *:80\" -i eth0 -o web -w web/packets.pcapng --rotate 1h";

/// Below the help of `follow`.
pub const FOLLOW_EXAMPLES: &str = "\
Examples:
  netalytics follow bf960ba76b95ac15 -r captures/shop/in.pcap
  netalytics follow 1:EMwOMullOvnXqHxWgZVP3yf/x0c= -r captures/shop/in.pcap --hex --bytes-max all
  netalytics follow bf960ba76b95ac15 -r captures/shop/in.pcap -w flow.pcapng";

/// Below the help of `explain`.
pub const EXPLAIN_EXAMPLES: &str = "\
Examples:
  netalytics explain \"PARSE http TO *:80 PROCESS (diff-group: group=url)\"
  netalytics explain \"PARSE http PROCESS (diff-group: group=url, w=10s)\" --engine flink
  netalytics explain \"PARSE tcp_conn_time TO 10.0.1.2:80 PROCESS (diff-group: group=srcIP)\" --network network.toml
  netalytics explain \"PARSE http TO *:80\" --network network.toml --exact --format svg > plan.svg";

/// Below the help of `calibrate`.
pub const CALIBRATE_EXAMPLES: &str = "\
Examples:
  netalytics calibrate -o costs.toml
  netalytics explain \"PARSE http TO 10.0.1.2:80\" --network network.toml --costs costs.toml";

/// Below the help of `network discover`.
pub const DISCOVER_EXAMPLES: &str = "\
Examples:
  netalytics network discover --switch leaf1=unix:/run/leaf1/db.sock --switch spine1=unix:/run/spine1/db.sock --addresses 10.0.1.0/24 -o network.toml
  netalytics network discover --switch s1=unix:/run/openvswitch/db.sock,br1 --server http://127.0.0.1:7979 --token-file t --into network.toml -o network.toml";

/// Below the help of `parsers`.
pub const PARSERS_EXAMPLES: &str = "\
Examples:
  netalytics parsers
  netalytics parsers http mysql_query
  netalytics parsers --format jsonl";

/// Below the help of `processors`.
pub const PROCESSORS_EXAMPLES: &str = "\
Examples:
  netalytics processors
  netalytics processors top-k group";

/// Below the help of `interfaces`.
pub const INTERFACES_EXAMPLES: &str = "\
Examples:
  netalytics interfaces
  netalytics interfaces --format jsonl";

/// Below the help of `simulate placement`.
pub const PLACEMENT_EXAMPLES: &str = "\
Strategies: local-random, netalytics-node and netalytics-network of the paper (section 4.1); packed-node and
packed-network need fewer processes and less bandwidth. docs/placement.md has assumptions and results.

Examples:
  netalytics simulate placement -o study
  netalytics simulate placement --flows 11.3M --monitored 250K,500K,1M
  netalytics simulate placement --k 48 --flows 10M --traffic 12Tbps --monitored 10M --seeds 1 --strategies packed-node";

/// Below the help of `config`.
pub const CONFIG_EXAMPLES: &str = "\
Examples:
  netalytics config
  netalytics config --memory-max 4G --tcp-idle 60s > netalytics.toml
  netalytics overview -r captures/shop/in.pcap --config netalytics.toml";

/// Below the help of `completions`.
pub const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  netalytics completions bash > ~/.local/share/bash-completion/completions/netalytics
  netalytics completions fish > ~/.config/fish/completions/netalytics.fish";

/// Below the help of `agent`.
pub const AGENT_EXAMPLES: &str = "\
Examples:
  netalytics agent --server http://127.0.0.1:7979 --token-file agent.token
  netalytics agent enroll --server https://netalytics.example:7979 --token-file web-1.token
  netalytics agent --server https://netalytics.example:7979";
/// Below the help of `serve`.
pub const SERVE_EXAMPLES: &str = "\
Examples:
  netalytics serve --data /srv/netalytics
  netalytics serve --tls --listen 0.0.0.0:7979 --host netalytics.example
  netalytics serve --receiver pager=webhook+https://example.org/hook#secret-file=/etc/netalytics/hook.key
  netalytics serve backup /backup/2026-11-27 --data /srv/netalytics
  netalytics serve restore /backup/2026-11-27 --data /srv/netalytics";

/// Below the help of `jobs`.
pub const JOBS_EXAMPLES: &str = "\
Examples:
  netalytics jobs --token-file /srv/netalytics/admin.token
  netalytics jobs start \"PARSE http PROCESS (diff-group: group=url_template, w=10s)\" --standing
  netalytics jobs show 1
  netalytics jobs results 1 --since 2026-11-22T10:00:00Z --format csv
  netalytics jobs stop 1";

/// Below the help of `agents`.
pub const AGENTS_EXAMPLES: &str = "\
Examples:
  NETALYTICS_TOKEN=… netalytics agents --server http://127.0.0.1:7979 --format jsonl
  netalytics agents enroll web-1 --server https://netalytics.example:7979 --ca ca.pem --out web-1.token
  netalytics agents revoke web-1 --server https://netalytics.example:7979 --ca ca.pem";

/// Below the help of `tokens`.
pub const TOKENS_EXAMPLES: &str = "\
Examples:
  netalytics tokens --token-file /srv/netalytics/admin.token
  netalytics tokens create shop-team --role run --network 10.1.0.0/16 --expires 720h --out shop-team.token
  netalytics tokens revoke shop-team";

/// Below the help of `audit`.
pub const AUDIT_EXAMPLES: &str = "\
Examples:
  netalytics audit --token-file /srv/netalytics/admin.token
  netalytics audit --limit 1000 --format jsonl";

/// Below the help of `actions`.
pub const ACTIONS_EXAMPLES: &str = "\
Examples:
  netalytics actions add hot --job pages --upper 500 --on-server web1 --on-server web2 --on-server web3 --to content --to proxy
  netalytics actions show hot
  netalytics actions decisions hot --format jsonl";

/// Below the help of `alerts`.
pub const ALERTS_EXAMPLES: &str = "\
Examples:
  netalytics alerts --state firing
  netalytics alerts add 'PARSE http PROCESS (diff-group: group=url_template, w=10s)' --when 'p99_total_time > 50ms' --for 1m --receiver pager
  netalytics alerts silence url_template=/checkout --for 2h --comment 'new release'
  netalytics alerts test pager";
