// Example questions; those for protocols that were seen come first.
import { parsersOf } from "../results/clauses";

export interface Example {
  question: string;
  query: string;
  isSeen: boolean;
}

const one = (question: string, query: string): Example => ({ question, query, isSeen: false });

export const EXAMPLES: Example[] = [
  one("Response times by page", "PARSE http PROCESS (diff-group: group=url_template, w=10s)"),
  one("Services and their clients", "PARSE http PROCESS (service-map: w=10s)"),
  one("Server errors by page and client", "PARSE http WHERE status >= 500 PROCESS (group-count: group=url_template, client_ip, w=10s)"),
  one("Slowest SQL statements", "PARSE mysql_query PROCESS (group-avg-top-k: group=fingerprint, value=response_time, total_time, k=10, w=10s)"),
  one("Distribution of response times", "PARSE http PROCESS (group-hist: group=url_template, w=10s)"),
  one("Median and p99 by page", "PARSE http PROCESS (group-count-quantile: group=url_template, value=response_time, total_time, q=0.5, 0.99, w=5s)"),
  one("Most frequent cache misses", "PARSE memcached_get WHERE hit = false PROCESS (top-k: k=20, w=10s)"),
  one("Hosts that send the most", "PARSE packet PROCESS (group-sum-top-k: group=src_ip, k=10, w=10s)"),
  one("Response times of the last ten minutes", "PARSE http SINCE 10m PROCESS (diff-group: group=url_template, w=10s)"),
  one("Failing SQL statements", "PARSE mysql_query WHERE error_code != 0 PROCESS (group-count-top-k: group=fingerprint, error_code, k=10, w=10s)"),
];

/** Parsers whose tuples are below the protocols that users ask about. */
const BELOW = /^(?:packet|flow|tcp_)/;

/** Examples of seen protocols first; a seen protocol without an example gets one with the parser's own group and measure. */
export function adapted(seen: string[]): Example[] {
  const isSeen = ({ query }: Example) => parsersOf(query).every((parser) => seen.includes(parser) || (seen.length > 0 && BELOW.test(parser)));
  const known = new Set(EXAMPLES.flatMap(({ query }) => parsersOf(query)));
  const own = seen.filter((parser) => !known.has(parser) && !BELOW.test(parser)).map((parser) => one(`Tuples of ${parser}, most frequent first`, `PARSE ${parser} PROCESS (group-count-top-k: k=10, w=10s)`));
  return [...EXAMPLES, ...own].map((example) => ({ ...example, isSeen: isSeen(example) })).sort((a, b) => (b.isSeen ? 1 : 0) - (a.isSeen ? 1 : 0));
}

const plain = (query: string) => query.replace(/\s+/g, " ").trim();

/** The question of a query that is an example; empty for others. */
export const nameOf = (query: string, examples: Example[]) => examples.find((example) => plain(example.query) === plain(query))?.question ?? "";
