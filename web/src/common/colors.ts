// Colors of groups: the palette of Okabe and Ito, safe for color vision deficiency. A group keeps its color while the page
// is open. Red is reserved for failures.
const COLORS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#b08900", "#7a5fb5", "#4d7f80"];
export const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3]];
const given = new Map<string, number>();

function place(key: string): number {
  let at = given.get(key);
  if (at === undefined) {
    at = given.size;
    given.set(key, at);
  }
  return at;
}

export const colorOf = (key: string) => COLORS[place(key) % COLORS.length] as string;
/** Beyond eight groups, lines also differ by dashes. */
export const dashOf = (key: string) => DASHES[Math.floor(place(key) / COLORS.length) % DASHES.length] as number[];

/** Cividis, from low to high; readable in grayscale. */
export function heat(share: number): string {
  const stops = [[0, 32, 77], [60, 77, 110], [124, 123, 120], [188, 175, 111], [255, 234, 70]] as const;
  const at = Math.min(0.9999, Math.max(0, share)) * (stops.length - 1);
  const [a, b] = [stops[Math.floor(at)], stops[Math.floor(at) + 1]] as [readonly number[], readonly number[]];
  const mix = (i: number) => Math.round((a[i] ?? 0) + ((b[i] ?? 0) - (a[i] ?? 0)) * (at % 1));
  return `rgb(${mix(0)},${mix(1)},${mix(2)})`;
}
