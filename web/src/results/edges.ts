// Results whose rows are edges of a map.
import type { Result } from "./model";

/** Whether the rows of a result are edges. */
export const isMap = (result: Result) => ["client_ip", "server_ip"].every((name) => result.keyColumns.some((at) => result.columns[at]?.name === name));
