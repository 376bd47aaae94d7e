// `ip -json neigh show` to values: who is known on which link, by which MAC. In: text. Out: neighbours. Pure.
import { ParseError } from "./errors.ts";

export interface Neighbour {
  readonly link: string;
  readonly address: string;
  /** "" while nobody has answered. */
  readonly mac: string;
  /** In the kernel's words: REACHABLE, STALE, DELAY, PROBE, PERMANENT, INCOMPLETE, FAILED. */
  readonly state: string;
}

/** Throws ParseError. Entries without a state, as a kernel prints them that has forgotten them, are left out. */
export function parseNeighbours(json: string): readonly Neighbour[] {
  let value: unknown;
  try {
    value = json.trim() === "" ? [] : JSON.parse(json);
  } catch (cause) {
    throw new ParseError("ip neigh", "not JSON", cause);
  }
  if (!Array.isArray(value)) throw new ParseError("ip neigh", "not a JSON array");
  return value.flatMap((item: Readonly<Record<string, unknown>>): readonly Neighbour[] => {
    const { dev, dst, lladdr, state } = item;
    const [word] = Array.isArray(state) ? (state as readonly unknown[]) : [];
    if (typeof dev !== "string" || typeof dst !== "string" || typeof word !== "string") return [];
    return [{ link: dev, address: dst, mac: typeof lladdr === "string" ? lladdr : "", state: word }];
  });
}
