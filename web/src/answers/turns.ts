// The data of a conversation's turns as text or in hexadecimal, and the tuples that begin in them.
import type { ConversationTurn } from "../api/schema";
import { visible } from "../common/format";

/** Bytes of a line in hexadecimal. */
const HEX_BYTES = 16;
/** Bytes by which text is recognized, and the least share of characters among them. */
const [SAMPLE_BYTES, TEXT_SHARE] = [64, 0.8];

export const bytesOf = (hex: string) => Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));

const isCharacter = (byte: number) => (byte >= 0x20 && byte < 0x7f) || byte === 9 || byte === 10 || byte === 13;

/** Whether data is mostly text. */
export function isTextual(data: Uint8Array): boolean {
  const sample = [...data.subarray(0, SAMPLE_BYTES)];
  return sample.filter(isCharacter).length >= TEXT_SHARE * sample.length;
}

/** The lines of data as text; other characters are escaped. */
export const textLines = (data: Uint8Array) => new TextDecoder().decode(data).replace(/\r?\n$/, "").split(/\r?\n/).map(visible);

/** The data in hexadecimal, with offsets and characters. */
export function hexLines(data: Uint8Array): string[] {
  return Array.from({ length: Math.ceil(data.length / HEX_BYTES) }, (_, line) => {
    const at = line * HEX_BYTES;
    const bytes = [...data.subarray(at, at + HEX_BYTES)];
    const hex = bytes.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const text = bytes.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : ".")).join("");
    return `${at.toString(16).padStart(4, "0")}  ${hex.padEnd(3 * HEX_BYTES - 1)}  ${text}`;
  });
}

/** The tuples whose request begins in each turn. */
export function begunIn<T extends { ts: string }>(turns: ConversationTurn[], tuples: T[]): T[][] {
  return turns.map((turn) => tuples.filter(({ ts }) => turn.from === "client" && BigInt(ts) >= BigInt(turn.first_ns) && BigInt(ts) <= BigInt(turn.last_ns)));
}
