// Which results are edges of a map: their rows say who asks whom.
import type { Result } from "./model";

/** Whether a result's rows are edges. */
export const isMap = (result: Result) => ["client_ip", "server_ip"].every((name) => result.keyColumns.some((at) => result.columns[at]?.name === name));
