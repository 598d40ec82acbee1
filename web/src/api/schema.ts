// Types of the API, generated from its description: `UPDATE=1 cargo test --workspace --test server page_types`.

/** Event `account`: counters of a job. */
export type AccountEvent = JobAccount & {
  /** Job. */
  job: JobId;
  /** Nanoseconds from the watermark to the server's clock. */
  lag_ns: string | null;
};

/** Actions. */
export interface ActionList {
  /** Oldest first. */
  actions: ActionShown[];
}

/** An action as requested. */
export interface ActionRequest {
  /** Minimum time between a completed decision and the next; default: `10s`. */
  backoff?: string | null;
  /** Time for which the load must stay below `lower`; default: `backoff`. */
  down_for?: string | null;
  /** When replicas are removed: delay between the last of `to` and the others; default: `2s`. */
  drain?: string | null;
  /** Number or name of a standing job. */
  job: string;
  /** Load per replica below which a replica is removed: at most half of `upper`; default: a quarter of `upper`. */
  lower?: number | null;
  /** Maximum replicas of a group; default: the number of servers. */
  max?: number | null;
  /** Replicas of a group without load; default: 1. */
  min?: number | null;
  /** Name: letters, digits, `-`, `_` and `.`. */
  name: string;
  /** Result of the job, by the name of its processor or by index; required if there are several. */
  result?: string | null;
  /** Available servers. A group with n replicas uses the first n. */
  servers: string[];
  /** Maximum replicas added at once; default: 1. */
  step?: number | null;
  /** Receivers of decisions, by names defined by the operator (`serve --outlet`) or as addresses: notified in this order when replicas are added and in reverse order when they are removed, each after the previous one has acknowledged. */
  to: string[];
  /** Time for which the load must stay above `upper`; default: one window. */
  up_for?: string | null;
  /** Load per replica above which a replica is added. */
  upper: number;
  /** Column with the load of a group in a window; default: `count`. */
  value?: string;
}

/** An action. */
export interface ActionShown {
  /** The request. */
  action: ActionRequest;
  /** Groups with more replicas than those without load, or with a load that may require them. */
  groups: GroupShown[];
  /** Groups not tracked because of the limit. */
  groups_left_out: number;
  /** Identifier. */
  id: string;
  /** Job whose rows it evaluates. */
  job_id: JobId;
  /** Name. */
  name: string;
  /** Token name of the owner. */
  owner: string;
  /** Reason for `failing` or `broken`. */
  problem: string | null;
  /** End of the last evaluated window, in nanoseconds since the epoch. */
  seen_ns: string | null;
  /** Servers in use. */
  servers: string[];
  /** `ok`; `carrying_out`: a receiver has not acknowledged the last decision; `failing`: a receiver rejects it; `broken`: the rows cannot be evaluated. */
  state: string;
  /** Number of the last decision. */
  version: number;
}

/** A known agent. */
export interface Agent {
  /** Addresses, without loopback and link-local ones; they determine which agent reports a flow that several see. */
  addresses: string[];
  /** Addresses that another agent also has, which therefore determine nothing. */
  addresses_shared: string[];
  /** Capabilities: af_packet, af_xdp, ovs. */
  capabilities: string[];
  /** Offset of its clock from the server's, as measured, in nanoseconds. */
  clock_offset_ns: string | null;
  /** Whether the agent is connected. */
  connected: boolean;
  /** Number of cores. */
  cores: number;
  /** Interfaces from which the agent may capture. */
  interfaces: string[];
  /** Jobs it runs. */
  jobs: JobId[];
  /** Labels reported by the agent: host, rack, role. */
  labels: Record<string, string>;
  /** Time of its last message, in nanoseconds since the epoch. */
  last_seen_ns: string | null;
  /** Memory in bytes. */
  memory_bytes: number;
  /** Name, assigned by an admin. */
  name: string;
  /** Recent packets per second on its interfaces, while it is connected. */
  packets_per_second: number | null;
  /** Version of its program. */
  version: string;
}

/** Counters and state of an agent in a job. */
export interface AgentAccount {
  /** Name. */
  agent: string;
  /** Counters of its monitors, over all their starts: packets, bytes, tuples, flows, gaps, lost; `monitor_jobs`: the number of jobs that share the running monitor; `exports.…`: export messages. */
  counters: Record<string, number>;
  /** Exporters whose messages its monitors read: those with the largest losses. */
  exporters?: ExporterAccount[];
  /** Reason of a problem. */
  reason: string | null;
  /** Records lost before they arrived. */
  records_lost: number;
  /** State of the job on the agent: waiting, starting, running, stopping, flushing, finished, poisoned, refused, absent. */
  state: string;
  /** Known number of tuples in lost records. */
  tuples_lost: number;
}

/** Counters of each agent of a job. */
export interface AgentAccounts {
  /** By name. */
  agents: AgentAccount[];
  taps: null | TapAccount;
}

/** Estimated cost of a job on an agent's host. */
export interface AgentEstimate {
  /** Name of the agent. */
  agent: string;
  /** The estimate. */
  estimate: Estimate;
}

/** Agents. */
export interface Agents {
  /** By name. */
  agents: Agent[];
}

/** Alerts. */
export interface AlertList {
  /** By rule. */
  alerts: AlertShown[];
  /** `after` of the next page, if there is one. */
  next: string | null;
}

/** An alert. */
export interface AlertShown {
  /** Annotations. */
  annotations: Record<string, string>;
  /** Identifies the rule and the group, also in notifications. */
  fingerprint: string;
  /** End of the window in which it fired. */
  fired_ns: string | null;
  /** Reason why the last window did not evaluate it: `no_data` or `missing_agents`. */
  held: string | null;
  /** Job that produces its rows. */
  job: JobId;
  /** Labels of the rule and the group. */
  labels: Record<string, string>;
  /** `condition`: a group meets the condition; `no_data`, `missing_agents`: about the rule itself. */
  reason: string;
  /** End of the window in which it resolved. */
  resolved_ns: string | null;
  /** Name of the rule. */
  rule: string;
  /** Identifier of the rule. */
  rule_id: string;
  /** Silences that suppress its notifications. */
  silenced_by: string[];
  /** Start of the first window that met the condition, in nanoseconds since the epoch. */
  since_ns: string;
  /** `pending`, `firing` or `resolved`. */
  state: string;
  /** Row of the last window that met the condition. */
  values: Record<string, unknown>;
}

/** An argument. */
export interface Argument {
  /** Default value. */
  default: string;
  /** Description. */
  doc: string;
  /** Name. */
  name: string;
}

/** Entries of the audit log. */
export interface Audit {
  /** Newest first. */
  entries: Audited[];
}

/** An entry. */
export interface Audited {
  /** Operation: job.start, job.stop, token.create, token.revoke, login, alert_rule.create, silence.create … */
  act: string;
  /** Time, in nanoseconds since the epoch. */
  at_ns: string;
  /** Number. */
  id: number;
  /** Object of the operation. */
  object: string;
  /** `done`, or the reason of the rejection. */
  outcome: string;
  /** The token's name, or the client's address without a token. */
  who: string;
}

/** A column, with the columns of its interval bounds. */
export type BoundedColumn = ColumnHead & {
  /** Column of the upper bound; omitted if there is none. */
  high?: string;
  /** Column of the lower bound; omitted if there is none. */
  low?: string;
};

/** Bus to which agents publish their results, instead of sending them to the server. */
export type BusKind = "kafka";

/** Event `bye`: the last of a stream. */
export interface ByeEvent {
  /** Reason. */
  reason: string;
  /** Milliseconds to wait before reconnecting. */
  retry_after_ms: number;
}

/** All elements. */
export interface Catalog {
  /** Arguments of blocks. */
  arguments: Argument[];
  /** Blocks from which processors are composed. */
  blocks: Named[];
  /** Scalar functions. */
  functions: Named[];
  /** Parsers. */
  parsers: Parser[];
  /** Version of the program. */
  version: string;
}

/** Value of a cell. Times, durations in whole nanoseconds, ids, and addresses are strings; a distribution is a list of upper bounds with their counts or shares. */
export type Cell = boolean | number | string | number[][];

/** A certificate issued to an agent. */
export interface Certified {
  /** Name of the agent. */
  agent: string;
  /** Certificate of the issuing authority, PEM. */
  authority: string;
  /** Certificate, PEM. */
  certificate: string;
  /** Time of expiration, in nanoseconds since the epoch. */
  good_until_ns: string;
}

/** Change of a group. */
export interface Change {
  /** Number of replicas before. */
  from: number;
  /** Name of the group. */
  group: string;
  /** Number of replicas after. */
  to: number;
  /** Load in the window; an estimate for a group without a row. */
  value: number;
}

/** Result of a check. */
export interface CheckAnswer {
  /** Completions. */
  completions: string[];
  /** Errors; empty: the query can be run. */
  diagnostics: Problem[];
  /** A valid statement in SQL in the spelling that begins with PARSE. */
  parse_spelling: string | null;
  /** Value of the request. */
  revision: number | null;
  word: null | Place;
}

/** A text to check. */
export interface CheckRequest {
  /** Position of the cursor in UTF-16 units; without it, no completions. */
  cursor?: number | null;
  /** Returned unchanged, for editors that send a new request before the previous answer. */
  revision?: number | null;
  /** The text. */
  text: string;
}

/** The API view of a column. */
export interface ColumnHead {
  /** Description, one line. */
  doc: string;
  /** Name. */
  name: string;
  /** Type. */
  type: ColumnType;
  /** Unit; empty: none. */
  unit: ColumnUnit;
}

/** Type of a column. */
export type ColumnType = "bool" | "u64" | "i64" | "f64" | "text" | "ip" | "hashes" | "json";

/** Unit of a column; empty: none. */
export type ColumnUnit = "" | "ns" | "epoch_ns" | "bytes" | "per_second" | "bytes_per_second" | "fraction" | "id";

/** What both sides of a flow sent. */
export interface Conversation {
  /** Address and port of the client. */
  client: string;
  /** Whether the client was guessed from the ports. */
  client_guessed: boolean;
  /** Community ID of the flow. */
  community_id: string;
  /** How the flow ended: fin, rst, idle, `port_reused`, evicted, or `end_of_input`. */
  ending: string;
  /** Time of the first packet, in nanoseconds since the epoch. */
  first_ns: string;
  /** ID of the flow. */
  id: string;
  /** Time of the last packet. */
  last_ns: string;
  /** Errors of the capture. */
  notes: string[];
  /** Bytes of these packets, as captured. */
  packet_bytes: number;
  /** Number of packets. */
  packets: number;
  /** Packets beyond the maximum size of a file. */
  packets_left_out: number;
  /** Address and port of the server. */
  server: string;
  /** Transport protocol: tcp, udp, or a number. */
  transport: string;
  /** Turns in order: data of one side until the other side sends, or until a pause of a second; datagrams one by one. */
  turns: ConversationTurn[];
  /** Turns beyond the maximum. */
  turns_left_out: number;
}

/** A side of a conversation. */
export type ConversationSide = "client" | "server";

/** Data that one side of a flow sent. */
export interface ConversationTurn {
  /** Bytes sent. */
  bytes: number;
  /** First bytes in hexadecimal. */
  data: string;
  /** Time of its first packet, in nanoseconds since the epoch. */
  first_ns: string;
  /** Sender. */
  from: ConversationSide;
  /** Time of its last packet. */
  last_ns: string;
  /** Bytes that were not captured. */
  missing: number;
}

/** State of a job's mirroring. */
export type CopiesState = "waiting" | "copying" | "ended";

/** Current usage, and counters of losses and rejections since the start. */
export interface Counters {
  /** Groups not tracked by actions because of the limit. */
  action_groups_left_out: number;
  /** Number of actions. */
  actions: number;
  /** Connected agents. */
  agents_connected: number;
  /** Groups without an alert because of the limit per rule. */
  alert_groups_left_out: number;
  /** Number of alert rules. */
  alert_rules: number;
  /** Number of firing alerts. */
  alerts_firing: number;
  /** Unauthenticated connections closed to make room for others. */
  connections_evicted: number;
  /** Connections closed because no complete request head arrived in time, including idle ones. */
  connections_silent: number;
  /** Times that connections waited for others to end. */
  connections_waited: number;
  /** Decisions of actions that were carried out. */
  decisions_done: number;
  /** Failed attempts to carry out decisions, which were retried. */
  decisions_retried: number;
  /** Failed TLS handshakes: invalid certificate, rejected server certificate, no TLS, or timeout. */
  handshakes_failed: number;
  /** Connections closed because of malformed HTTP or a request head that is too long. */
  heads_refused: number;
  /** Bytes of results that are kept: of the history's files, and of the newest rows in the store. */
  history_bytes: number;
  /** Jobs rejected because of the limit in total or per owner. */
  jobs_refused: number;
  /** Jobs that have not ended. */
  jobs_unfinished: number;
  /** Connections of agents closed because of a protocol violation. */
  links_broken: number;
  /** Notifications not accepted in time, or dropped for lack of room. */
  notifications_lost: number;
  /** Attempts that failed and were retried. */
  notifications_retried: number;
  /** Notifications acknowledged by receivers. */
  notifications_sent: number;
  /** Queries of the past aborted at their time limit. */
  queries_given_up: number;
  /** Rows omitted from answers to queries of the past because of their limit. */
  query_rows_left_out: number;
  /** Requests rejected by rate limits. */
  requests_refused: number;
  /** Rows removed by retention. */
  rows_dropped: number;
  /** Rows that could not be stored, counted at each attempt. */
  rows_unkept: number;
  /** Rows omitted from live streams because there were too many at once. */
  rows_unshown: number;
  /** Segments of the history that could not be read. */
  segments_damaged: number;
  /** Open live streams. */
  streams: number;
  /** Live streams rejected because of the limit in total or per token. */
  streams_refused: number;
  /** Bytes of results that are kept for jobs that keep their tuples. */
  tuple_bytes: number;
  /** Seconds since the start. */
  uptime_seconds: number;
}

/** Decisions. */
export interface DecisionList {
  /** Newest first. */
  decisions: DecisionShown[];
  /** `before` of the next page, if there is one. */
  next: number | null;
}

/** A decision. */
export interface DecisionShown {
  /** Changes. */
  changes: Change[];
  /** Time of the decision. */
  decided_ns: string;
  /** Whether replicas are added or removed; `begin`: the first decision, with the replicas without load. */
  direction: Direction;
  /** Time of completion, if completed. */
  done_ns: string | null;
  /** Number of groups with more replicas than those without load, after it. */
  groups: number;
  /** Servers in use after it. */
  servers: string[];
  /** Number. */
  version: number;
  /** End of the evaluated window. */
  window_end_ns: string | null;
  /** Start of the evaluated window, in nanoseconds since the epoch. */
  window_start_ns: string | null;
}

/** Direction of a decision. */
export type Direction = "begin" | "up" | "down";

/** An enrolled agent. */
export interface Enrolled {
  /** Name. */
  agent: string;
  /** Time of enrollment, in nanoseconds since the epoch. */
  enrolled_ns: string;
  /** Expiration of its newest certificate. */
  good_until_ns: string;
  /** Time of revocation. */
  revoked_ns: string | null;
}

/** Enrollment of a host. */
export interface EnrolmentRequest {
  /** Certificate signing request (PKCS #10), PEM. Only its public key is used. */
  request: string;
  /** One-time token. */
  token: string;
}

/** Enrolled agents. */
export interface Enrolments {
  /** By name. */
  enrolments: Enrolled[];
}

/** Estimated cost of a job on a host. */
export interface Estimate {
  /** Cores. */
  cores: number;
  /** Memory in bytes. */
  memory_bytes: number;
  /** Packets per second assumed. */
  packets_per_second: number;
  /** Bytes per second sent by the host, without results of processors, which are small. */
  sent_bytes_per_second: number;
}

/** The plan of a query. */
export interface ExplainAnswer {
  /** Estimated cost on the host of each connected agent, at its current packet rate. */
  agents: AgentEstimate[];
  /** Estimated cost on a host with 100,000 packets per second. */
  estimate: Estimate;
  /** The query in the spelling that begins with PARSE. */
  parse_spelling: string;
  /** Parsers, with the columns used of their tuples. */
  parsers: ParserUse[];
  /** Processors; empty: the tuples are the result. */
  processors: string[];
  /** The query as statements in SQL, one per processor; null for a processor that SQL cannot express. */
  sql_spelling: (string | null)[];
  /** Text as printed by `netalytics explain`. */
  text: string;
}

/** A query to explain. */
export interface ExplainRequest {
  /** The query. */
  query: string;
}

/** State of an observation domain of an exporter. */
export interface ExporterAccount {
  /** Clock of the exporter minus that of the agent, in nanoseconds; null without a clock. */
  clock_offset_ns: string | null;
  /** Observation domain, source, or sub-agent. */
  domain: number;
  /** Address of the exporter. */
  exporter: string;
  /** Units missing. */
  lost: number;
  /** Protocol of its messages: sflow, netflow5, netflow9, ipfix. */
  protocol: string;
  /** Units of its sequence numbers received: datagrams (sFlow, NetFlow 9) or records. */
  received: number;
  /** Restarts of the exporter. */
  restarts: number;
}

/** Error response. */
export interface Failure {
  /** Code for programs; never changes its meaning. */
  code: string;
  /** Message for people. */
  message: string;
  place: null | Place;
  /** All errors in the query, including the first; empty for other errors. */
  problems: Problem[];
}

/** Packets of a flow, as an upload. */
export interface FetchedPackets {
  /** Agent that kept the packets. */
  agent: string;
  /** Community ID of the flow; other flows between the same endpoints in the period are in the upload, too. */
  community_id: string;
  /** Omitted packets, and agents that could not read theirs. */
  notes: string[];
  /** The upload. */
  recording: Recording;
}

/** Event `gap`: events were missed. */
export interface GapEvent {
  /** Provisional events dropped for a slow client; omitted for a client that reconnects. */
  provisional_events?: number;
  /** Reason. */
  reason: string;
}

/** A group of an action. */
export interface GroupShown {
  /** Name. */
  group: string;
  /** Current or decided number of replicas. */
  replicas: number;
  /** Load in the last window. */
  value: number;
}

/** Health of the service. */
export interface Health {
  /** `ok`. */
  status: string;
  /** Version of the program. */
  version: string;
}

/** Event `hello`: the first of a stream. */
export interface HelloEvent {
  /** Incarnation of the server, the first part of event ids. */
  boot: string;
  /** Jobs of the stream. */
  jobs: JobId[];
  /** Limits of the stream. */
  limits: StreamLimits;
  /** Version of the program. */
  version: string;
}

/** A one-time token for the enrollment of a host. */
export interface Invitation {
  /** Name of the agent. */
  agent: string;
  /** Time of expiration, in nanoseconds since the epoch. */
  expires_ns: string;
  /** The token; not stored, shown only once. If the server's certificate is signed by the server's own authority, the fingerprint of that authority follows the period. */
  token: string;
}

/** An agent to invite. */
export interface InvitationRequest {
  /** Name: letters, digits, `-`, `_`, `.`, at most 64. */
  agent: string;
  /** Validity of the token in seconds; default one hour, at most one week. */
  expires_in_seconds?: number;
}

/** A job as stored and shown. */
export interface Job {
  bus: null | BusKind;
  /** Capture filter in libpcap's syntax; none: all packets. */
  capture_filter: string | null;
  /** Time of submission, in nanoseconds since the epoch. */
  created_ns: string;
  /** Time of its end. */
  ended_ns: string | null;
  engine: null | Merger;
  /** Number. */
  id: JobId;
  /** Interfaces from which agents capture; empty: all that they may use. */
  interfaces: string[];
  /** Data stored for later queries. */
  keep: Keep;
  /** Whether the job ends by itself. */
  kind: JobKind;
  /** Labels of the job. */
  labels: Record<string, string>;
  /** Seconds without renewal after which it ends; null without a lease. */
  lease_seconds: number | null;
  /** Name. */
  name: string;
  /** Whether it runs in the server's network: the server plans the monitors' locations, and switches mirror to them. */
  network: boolean;
  /** Labels that an agent must have to take part. */
  on: Record<string, string>;
  outcome: null | Outcome;
  /** Destinations of the job's rows besides the history, with their state. */
  outlets: JobOutlet[];
  /** Token name of the owner. */
  owner: string;
  /** The query. */
  query: string;
  /** Reason for its end, or for not running. */
  reason: string | null;
  /** Whether texts that may identify a person are redacted. */
  redacted: boolean;
  /** Source of the packets. */
  source: JobSource;
  /** State. */
  state: StateWord;
}

/** Counters of a job for its watchers, about once a second. */
export interface JobAccount {
  /** Packets dropped by the monitor. */
  dropped: number;
  /** Packets excluded by FROM, TO or LIMIT. */
  filtered: number;
  /** Packets lost before they were received. */
  lost_before_us: number;
  /** Packets passed to parsers. */
  parsed: number;
  /** Tuples by quality. */
  quality: Record<string, number>;
  /** Packets received. */
  received: number;
  /** Lost records of agents. */
  records_lost: number;
  /** Sampling rate of flows: the lowest of all agents. */
  sample_rate: number | null;
  /** Packets excluded by sampling. */
  sampled_out: number;
  taps: null | TapAccount;
  /** Tuples made by monitors, before WHERE. */
  tuples: number;
  /** Known number of tuples in lost records. */
  tuples_lost: number;
  /** Packets that could not be decoded. */
  undecodable: number;
  /** Watermark, in nanoseconds since the epoch. */
  watermark_ns: string | null;
}

/** Event `job`: change of a job's state. */
export interface JobEvent {
  /** Job. */
  job: JobId;
  outcome: null | Outcome;
  /** Reason of that state. */
  reason: string | null;
  /** State of the job. */
  state: StateWord;
}

export type JobId = string;

/** Whether a job ends by itself. */
export type JobKind = "one_off" | "standing";

/** State of a job's rows at an outlet. */
export interface JobOutlet {
  /** Rows waiting for delivery. */
  behind: number;
  /** Rows acknowledged. */
  delivered: number;
  /** Rows lost. */
  lost: OutletLosses;
  /** Last error since the start of the server. */
  problem: string | null;
  /** Retries since the start of the server. */
  retries: number;
  /** State. */
  state: OutletState;
  /** Name, or address without secrets. */
  to: string;
}

/** A job as requested. */
export interface JobRequest {
  bus?: null | BusKind;
  /** Capture filter in libpcap's syntax; none: all packets. */
  capture_filter?: string | null;
  engine?: null | Merger;
  /** Interfaces from which agents capture, `*` for any characters; empty: all that they may use. */
  interfaces?: string[];
  /** Data to store for later queries: its results, or its tuples, which requires a standing job without PROCESS. */
  keep?: Keep;
  /** Whether the job ends by itself. */
  kind?: JobKind;
  /** Labels of the job. */
  labels?: Record<string, string>;
  /** For a one-off job: it ends if it is not renewed for this number of seconds. */
  lease_seconds?: number | null;
  /** Name. */
  name?: string;
  /** Runs it in the server's network: the server plans the monitors' locations, and switches mirror to them. BUDGET limits the resources. */
  network?: boolean;
  /** Labels that an agent must have to take part; empty: every agent. */
  on?: Record<string, string>;
  /** The query. */
  query: string;
  /** Whether texts that may identify a person are redacted; false requires the role raw. */
  redact?: boolean;
  /** Source of the packets: interfaces of the agents' hosts, or export messages of switches and routers (sFlow, NetFlow, IPFIX) that agents receive. */
  source?: JobSource;
  /** Destinations of the job's rows in addition to the history: names of outlets, or addresses, which require the role admin. */
  to?: string[];
}

/** Source of a job's packets. */
export type JobSource = "interfaces" | "exports";

/** Jobs. */
export interface Jobs {
  /** Newest first. */
  jobs: Job[];
  next: null | JobId;
}

/** Data of a job stored for later queries. */
export type Keep = "results" | "tuples";

/** Kind of an entry. */
export type Kind = "upload" | "capture" | "data_set";

/** Authenticated user. */
export interface LoginAnswer {
  /** Name of the token. */
  name: string;
  /** Role. */
  role: Role;
}

/** A token to exchange for a session. */
export interface LoginRequest {
  /** The token. */
  token: string;
}

/** Process that merges the results on a bus. */
export type Merger = "embedded" | "flink";

/** A name with a description. */
export interface Named {
  /** Description. */
  doc: string;
  /** Name or syntax. */
  name: string;
}

/** A host. */
export interface NetworkHost {
  /** IP addresses. */
  addresses: string[];
  /** Agent on the host. */
  agent: string | null;
  /** Name. */
  name: string;
  /** Port of that switch. */
  port: number;
  /** Whether it is reserved for monitors. */
  spare: boolean;
  /** Switch to which it is connected. */
  switch: string;
}

/** A job in the network. */
export interface NetworkJob {
  /** Job number. */
  job: JobId;
  /** Data that the result lacks. */
  lacks: string[];
  /** Selection of mirrored packets. */
  mode: string;
  /** Monitors. */
  monitors: NetworkMonitor[];
  /** Flows that are not captured. */
  not_covered: string[];
  /** Complete plan, in the format of `explain --format json`. */
  plan: Record<string, unknown>;
  /** Result of the proof over the switches' reported rules, as text. */
  proof: string;
  /** State of mirroring. */
  state: CopiesState;
  /** Reason for the selection. */
  why: string;
}

/** A link between two switches. */
export interface NetworkLink {
  /** Lower switch. */
  from: string;
  /** Port of the lower switch. */
  from_port: number;
  /** Capacity in each direction, in Mb/s. */
  mbps: number;
  /** Upper switch. */
  to: string;
  /** Port of the upper switch. */
  to_port: number;
}

/** A port mirror. */
export interface NetworkMirror {
  job: null | JobId;
  /** Name on the switch. */
  name: string;
  /** Mirrored ports. */
  ports: string[];
  /** Output port. */
  to: string | null;
}

/** A monitor in the network. */
export interface NetworkMonitor {
  /** Agent that runs it. */
  agent: string;
  /** Clients of its flows; empty: any. */
  clients: string[];
  /** Expected load in cores. */
  cores: number;
  /** Host of the monitor, or the switch on whose own host it runs. */
  host: string;
  /** Capture interfaces. */
  interfaces: string[];
  /** Expected traffic in Mb/s. */
  mbps: number;
  /** Servers of its flows; empty: any. */
  servers: string[];
  /** Switch whose packets it receives. */
  switch: string;
}

/** An active rule, as last read from its switch: after a change or a renewal of its lease. */
export interface NetworkRule {
  /** Actions. */
  actions: string;
  /** Cookie that identifies the owner. */
  cookie: string;
  job: null | JobId;
  /** Seconds without renewal after which it expires. */
  lease_seconds: number;
  /** Match of packets. */
  matches: string;
  /** Priority; the highest matching rule applies. */
  priority: number;
  /** Table number. */
  table: number;
}

/** A switch. */
export interface NetworkSwitch {
  /** Agent on the switch's own host, which captures at its ports. */
  agent: string | null;
  /** The server's port mirrors. */
  mirrors: NetworkMirror[];
  /** Name. */
  name: string;
  /** Control channel: its database (ovsdb) or its controller; null: none. */
  reached: string | null;
  /** The server's active rules. */
  rules: NetworkRule[];
  /** Tier in the tree: edge, aggregation or core. */
  tier: string;
}

/** A network. */
export interface NetworkView {
  /** Hosts. */
  hosts: NetworkHost[];
  /** Whether the server has a network file (`serve --network FILE`). */
  is_known: boolean;
  /** Jobs in the network. */
  jobs: NetworkJob[];
  /** Links between switches. */
  links: NetworkLink[];
  /** Switches. */
  switches: NetworkSwitch[];
}

/** A new token with its secret. */
export type NewToken = Token & {
  /** The secret; not stored, shown only once. */
  secret: string;
};

/** Effect of a window that lacks agents. */
export type OnMissingAgents = "alert" | "hold" | "judge";

/** Effect of a window without rows. */
export type OnNoData = "alert" | "hold" | "resolve";

/** Kind of data from which an answer was computed. */
export type Origin = "tuples" | "rows" | "recording";

/** Outcome of a job. */
export type Outcome = "finished" | "limit" | "stopped" | "abandoned" | "failed";

/** Rows that an outlet lost, by cause. */
export interface OutletLosses {
  /** Dropped because too many waited. */
  backlog: number;
  /** Removed by retention before the delivery. */
  gone: number;
  /** Rejected by the receiver. */
  refused: number;
}

/** State of an outlet. */
export type OutletState = "up" | "retrying" | "broken" | "done";

/** Request for the packets of a flow. */
export interface PacketFetch {
  /** Name of the agent; without it, the agent that has most of the packets. */
  agent?: string | null;
  /** Address and port of the client, as `10.0.0.1:40000` or `[fd00::1]:40000`. */
  client: string;
  /** Address and port of the server. */
  server: string;
  /** Start of the period, in nanoseconds since the epoch. */
  since_ns: string;
  /** `tcp` or `udp`. */
  transport: string;
  /** End of the period. */
  until_ns: string;
}

/** A parser. */
export interface Parser {
  /** Description, one line. */
  doc: string;
  /** Fields created on use in a query: `family.NAME`. */
  families: Named[];
  /** Fields of its tuples. */
  fields: ColumnHead[];
  /** Field grouped by default. */
  key: string | null;
  /** Name. */
  name: string;
  /** Field aggregated by default. */
  value: string | null;
  /** Incremented when a field changes its meaning. */
  version: number;
}

/** Columns used of a parser's tuples. */
export interface ParserUse {
  /** Columns. */
  columns: string[];
  /** Name of the parser. */
  name: string;
}

/** Answer from stored data. */
export interface PastAnswer {
  /** Start of the baseline. */
  baseline_since_ns: string | null;
  /** End of the baseline, exclusive. */
  baseline_until_ns: string | null;
  /** Source: tuples of a job, rows of a job with the same query, or a recording. */
  from: Origin;
  job: null | JobId;
  /** Notes on the answer. */
  notes: string[];
  /** Recording that was read. */
  recording: string | null;
  /** The results, by processor. */
  results: PastResult[];
  /** Start of the period, if limited. */
  since_ns: string | null;
  /** Number of tuples read. */
  tuples: number;
  /** End of the period, exclusive. */
  until_ns: string | null;
}

/** A query of the past. */
export interface PastRequest {
  /** With BASELINE: confidence level of differences; default 0.95. */
  confidence?: number | null;
  /** Maximum number of rows per result; default and maximum 10000. */
  limit?: number | null;
  /** Labels by which the job selects its agents. */
  on?: Record<string, string>;
  /** The query, with SINCE; relative times count back from now. For a recording, SINCE is optional and relative times count back from its end. */
  query: string;
  /** Capture or recording to read, by its id; none: data stored by jobs. */
  recording?: string | null;
  /** Result to return, by index from 0 or by the name of its processor; formats other than JSON contain one result. */
  result?: string | null;
}

/** A result. */
export interface PastResult {
  /** Columns. */
  columns: ColumnHead[];
  /** Number of group columns, which follow those of the window. */
  keys: number;
  /** Number of omitted rows. */
  left_out: number;
  /** Processor; none: tuples. */
  processor: string | null;
  /** Rows as lists of cells. Times, durations in whole nanoseconds and ids are strings. */
  rows: ((null | Cell)[])[];
  /** Name of the table. */
  table: string;
}

/** A range of a text. */
export interface Place {
  /** End, in bytes, exclusive. */
  end: number;
  /** End, in UTF-16 units, exclusive. */
  end_utf16: number;
  /** Start, in bytes. */
  start: number;
  /** Start, in UTF-16 units. */
  start_utf16: number;
}

/** An error in a query. */
export interface Problem {
  /** Expected text. */
  expected: string | null;
  /** Suggestion. */
  hint: string | null;
  /** Message. */
  message: string;
  /** Position. */
  place: Place;
}

/** Alerts to which a silence applies. */
export type Reach = "own" | "all";

/** Receivers. */
export interface ReceiverList {
  /** In the order of the server's flags. */
  receivers: ReceiverState[];
}

/** State of a receiver. */
export interface ReceiverState {
  /** Name. */
  name: string;
  /** Error of the last attempt, if it failed. */
  problem: string | null;
  /** Documents accepted since the start of the server. */
  sent: number;
  /** Scheme, host and port; never secrets. */
  to: string;
  /** Number of waiting documents. */
  waiting: number;
}

/** Result of a test notification. */
export interface ReceiverTestResult {
  /** Error, if it was not. */
  problem: string | null;
  /** Whether it was accepted. */
  taken: boolean;
}

/** The API view of a capture or recording. */
export interface Recording {
  /** Size in bytes. */
  bytes: number;
  /** Time of expiration. */
  expires_ns: string | null;
  /** Time of its first packet. */
  first_ns: string | null;
  /** Identifier for queries. */
  id: string;
  /** Kind. */
  kind: Kind;
  /** Time of its last packet, if known without reading the whole file. */
  last_ns: string | null;
  /** Name of the file or folder. */
  name: string;
  /** Token name of the uploader. */
  owner: string | null;
  /** Parsers of a recording's tuples. */
  parsers: string[];
  /** Reason why it is unreadable. */
  problem: string | null;
  /** Time of the last change or upload, in nanoseconds since the epoch. */
  written_ns: string;
}

/** Captures and recordings. */
export interface Recordings {
  /** Uploads, newest first, then those of the folder. */
  recordings: Recording[];
  /** Maximum bytes of an upload. */
  upload_bytes_max: number;
  /** Seconds for which an upload is kept. */
  upload_seconds: number;
}

/** Renewal of an agent's certificate. */
export interface RenewalRequest {
  /** Certificate signing request, as for the enrollment. */
  request: string;
}

/** Schema of a result. */
export interface ResultAnswer {
  /** Columns. */
  columns: ColumnHead[];
  /** Rows removed by retention. */
  dropped: string;
  /** Number of group columns, which follow those of the window. */
  keys: number;
  /** Processor; none: tuples. */
  processor: string | null;
  /** Name of its table. */
  table: string;
  /** Number of rows so far, including removed ones. */
  total: string;
}

/** Schemas of a job's results. */
export interface Results {
  /** By index. */
  results: ResultAnswer[];
}

/** Role of a token; each includes the permissions of those before it. */
export type Role = "agent" | "view" | "run" | "raw" | "admin";

/** Rows as JSON. */
export interface RowsAnswer {
  /** Columns. */
  columns: ColumnHead[];
  /** Rows removed by retention. */
  dropped: string;
  /** Number of group columns, which follow those of the window. */
  keys: number;
  /** With `sort`, `find` or `offset`: total number of matching rows. */
  matches: string | null;
  /** `after` of the next page, if there may be more. */
  next: string | null;
  /** Processor; none: tuples. */
  processor: string | null;
  /** Rows as lists of cells. Times, durations in whole nanoseconds and ids are strings. */
  rows: ((null | Cell)[])[];
  /** Number of rows so far, including removed ones. */
  total: string;
}

/** Rules. */
export interface RuleList {
  /** Oldest first. */
  rules: RuleShown[];
}

/** A rule as requested. */
export interface RuleRequest {
  /** Annotations of the alerts; `{p99}` is replaced by the value of that column. */
  annotations?: Record<string, string>;
  /** Time for which the condition must hold: `1m`. */
  for?: string | null;
  /** Number or name of a standing job. Excludes `query`. */
  job?: string | null;
  /** Time for which it must not hold before the alert resolves. */
  keep_firing_for?: string | null;
  /** Labels of the alerts. */
  labels?: Record<string, string>;
  /** Name of the rule and of its alerts. */
  name: string;
  /** Labels that an agent must have to run the query. */
  on?: Record<string, string>;
  /** Effect of a window that lacks agents. */
  on_missing_agents?: OnMissingAgents;
  /** Effect of a window without rows. */
  on_no_data?: OnNoData;
  /** A query, which runs as a standing job owned by the rule. Excludes `job`. */
  query?: string | null;
  /** Names of receivers. */
  receivers?: string[];
  /** Whether texts of the query's rows are redacted, also in notifications; false requires the role raw. */
  redact?: boolean;
  /** Result of the query, by the name of its processor or by index; required if there are several. */
  result?: string | null;
  /** The condition on a row, over its columns: `p99 > 50ms`. */
  when: string;
}

/** A rule. */
export interface RuleShown {
  /** Number of firing alerts. */
  firing: number;
  /** Groups without an alert because of the limit. */
  groups_left_out: number;
  /** Identifier. */
  id: string;
  /** Job whose rows it evaluates. */
  job_id: JobId;
  /** Name. */
  name: string;
  /** Token name of the owner. */
  owner: string;
  /** Number of pending alerts. */
  pending: number;
  /** Reason for `broken`. */
  problem: string | null;
  /** The request. */
  rule: RuleRequest;
  /** End of the last evaluated window, in nanoseconds since the epoch. */
  seen_ns: string | null;
  /** `ok`; `no_data`: no rows to evaluate; `missing_agents`: the last rows lacked agents; `broken`: the condition does not apply to the rows. */
  state: string;
}

/** Event `sampling`: change of a job's sampling rate. */
export interface SamplingEvent {
  /** Job. */
  job: JobId;
  /** Share of flows that are processed; null: all. */
  rate: number | null;
  /** Reason. */
  reason: string;
}

/** A silence as stored and shown. */
export interface Silence {
  /** Token name of the author. */
  author: string;
  /** Reason. */
  comment: string;
  /** End, in nanoseconds since the epoch. */
  ends_ns: string;
  /** Identifier. */
  id?: number;
  /** `label=value`, `label!=value`, `label=~expression`, `label!~expression`; all must match. */
  matchers: string[];
  /** Alerts to which it applies. */
  reach: Reach;
  /** Start, in nanoseconds since the epoch. */
  starts_ns: string;
}

/** Silences. */
export interface SilenceList {
  /** Silences that have not ended, oldest first. */
  silences: Silence[];
}

/** A silence as requested. */
export interface SilenceRequest {
  /** Reason. */
  comment?: string;
  /** End; alternatively `for`. */
  ends?: string | null;
  /** Duration, such as `2h`; alternatively `ends`. */
  for?: string | null;
  /** `label=value`, `label!=value`, `label=~expression`, `label!~expression`; all must match. */
  matchers: string[];
  /** Start: 2026-11-22T10:00:00Z, or nanoseconds since the epoch; default: now. */
  starts?: string | null;
}

/** Event `snapshot`: state of a job, and the rows of its last windows. */
export interface SnapshotEvent {
  account: null | AccountEvent;
  /** Job. */
  job: JobId;
  outcome: null | Outcome;
  /** Reason of that state. */
  reason: string | null;
  /** Results, by index. */
  results: SnapshotResult[];
  /** State of the job. */
  state: StateWord;
}

/** A result of a snapshot. */
export interface SnapshotResult {
  /** The last closed window. */
  closed: SnapshotWindow;
  /** Columns. */
  columns: BoundedColumn[];
  /** Number of group columns, which follow those of the window. */
  keys: number;
  /** The open window. */
  open: SnapshotWindow;
  /** Processor; none: tuples. */
  processor: string | null;
  /** Number of final rows so far. */
  total: string;
}

/** Rows of a window in a snapshot. */
export interface SnapshotWindow {
  /** End, exclusive. */
  end: string | null;
  /** Rows. */
  rows: ((null | Cell)[])[];
  /** Start, in nanoseconds since the epoch; null: tuples, or no window. */
  start: string | null;
}

/** Names of states, for the API description. */
export type StateWord = "planned" | "arming" | "running" | "draining" | "ended";

/** Limits of a stream. */
export interface StreamLimits {
  /** Maximum rows per event. */
  event_rows: number;
  /** Seconds between comments that keep the connection alive. */
  heartbeat_seconds: number;
  /** Bytes of events queued per client. */
  queue_bytes: number;
  /** Bytes of events kept per job. */
  ring_bytes: number;
  /** Seconds for which events are kept for clients that reconnect. */
  ring_seconds: number;
}

/** Number of requests by the taps that saw them. */
export interface TapAccount {
  /** Client's tap only. */
  client_only: number;
  /** Requests seen at both taps. */
  joined: number;
  /** Server's tap only. */
  server_only: number;
  /** Requests not joined for lack of memory. */
  unkept: number;
}

/** A token without its secret. */
export interface Token {
  /** Time of creation, in nanoseconds since the epoch. */
  created_ns: string;
  /** Time of expiration, in nanoseconds since the epoch. */
  expires_ns: string | null;
  /** Identifier. */
  id: number;
  /** Name. */
  name: string;
  /** Networks to which it is restricted; empty: none. */
  networks: string[];
  /** Role. */
  role: Role;
}

/** A token to create. */
export interface TokenRequest {
  /** Validity in seconds. */
  expires_in_seconds?: number | null;
  /** Name: letters, digits, `-`, `_`, `.`, at most 64. */
  name: string;
  /** Networks to which it is restricted, as 10.1.0.0/16; empty: none. */
  networks?: string[];
  /** Role. */
  role: Role;
}

/** Tokens. */
export interface Tokens {
  /** In order of creation. */
  tokens: Token[];
}

/** Current user. */
export interface WhoAnswer {
  /** Name of the token; null without a valid token or session. */
  name: string | null;
  role: null | Role;
  /** Version of the program. */
  version: string;
}

/** Event `window`: rows of a window, or tuples. */
export interface WindowEvent {
  /** End, exclusive. */
  end: string | null;
  /** Job. */
  job: JobId;
  /** Index of the result. */
  result: number;
  /** Rows. */
  rows: ((null | Cell)[])[];
  /** Number of rows beyond the limit of an event. */
  rows_left_out: number;
  /** Start, in nanoseconds since the epoch; null: tuples. */
  start: string | null;
  /** Whether the rows are final. */
  state: WindowState;
}

/** State of a window. `open`: its rows are provisional; `closed`: they are final. */
export type WindowState = "open" | "closed";
