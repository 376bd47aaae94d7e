// Packet marks of EgressIPs, 50000 to 55000: a name keeps its mark as long as the object is there, whatever is done to it.
// In: the objects' annotations, and what was known before. Out: marks by EgressIP, which of them are to be written. Pure.
// Next after the last one given, around: what was just freed may still be on packets and connections of who had it.
import { byCodeUnit } from "../model/names.ts";
import { byAge } from "./assign.ts";
import type { Demand, Finding } from "./objects.ts";

const FIRST = 50_000;
const LAST = 55_000;

export interface Marks {
  readonly marks: ReadonlyMap<string, number>;
  /** The last one that was given; undefined before there is any. */
  readonly last: number | undefined;
}

const NO_MARKS: Marks = Object.freeze({ marks: new Map(), last: undefined });

export interface MarksFound extends Marks {
  readonly findings: readonly Finding[];
}

export function allocateMarks(demands: Iterable<Demand>, known: Marks = NO_MARKS): MarksFound {
  const sorted = [...demands].sort(byAge);
  const used = new Map<number, string>();
  const marks = new Map<string, number>();
  const findings: Finding[] = [];
  const say = (name: string, text: string) =>
    findings.push({ object: `EgressIP/${name}`, reason: "InvalidMark", text });
  const claim = (name: string, mark: number) => {
    used.set(mark, name);
    marks.set(name, mark);
  };
  const names = new Set(sorted.map(({ name }) => name));
  // What was given by us stands, whatever somebody wrote since; then what is written, then those without.
  for (const [name, mark] of known.marks) if (names.has(name)) claim(name, mark);
  for (const { name, mark } of sorted) {
    if (mark === undefined || marks.has(name)) continue;
    const number = /^[1-9]\d{4}$/.test(mark) ? Number(mark) : Number.NaN;
    const owner = used.get(number);
    if (!(number >= FIRST && number <= LAST))
      say(
        name,
        `its mark ${JSON.stringify(mark.slice(0, 40))} is not a number from ${FIRST} to ${LAST}; it gets another`,
      );
    else if (owner !== undefined)
      say(name, `its mark ${number} is that of EgressIP/${owner} too, which is older; it gets another`);
    else claim(name, number);
  }
  let last = known.last ?? (used.size === 0 ? undefined : Math.max(...used.keys()));
  for (const { name } of sorted) {
    if (marks.has(name)) continue;
    const next = nextFree(used, last);
    if (next === undefined) {
      say(
        name,
        `all marks from ${FIRST} to ${LAST} are in use; it has none, which pods of user-defined networks need`,
      );
      continue;
    }
    claim(name, next);
    last = next;
  }
  return { marks, last, findings: findings.sort((a, b) => byCodeUnit(a.object, b.object)) };
}

function nextFree(used: ReadonlyMap<number, string>, last: number | undefined): number | undefined {
  const count = LAST - FIRST + 1;
  if (used.size >= count) return undefined;
  let next = last ?? LAST;
  do next = next >= LAST ? FIRST : next + 1;
  while (used.has(next));
  return next;
}
