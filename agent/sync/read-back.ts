// What has to be read back because of what was written, and when that can begin. In: what wrote, and what is still to write.
// Out: domains. Pure.
import type { Domain, HostFacts } from "../model/facts.ts";
import type { AnyBackend } from "./backend.ts";
import type { Outcome } from "./round.ts";

/** A write of more lines than this is read back at once although its backend would trust it. */
const READ_BACK_LINES = 256;

/** Domains to read back after a round. */
export function toReadBack({ wrote, failures }: Pick<Outcome, "wrote" | "failures">): Set<Domain> {
  const failed = new Set(failures.map(({ backend }) => backend));
  return new Set(
    [...wrote].flatMap(([backend, lines]) => domainsOf(backend, lines, failed.has(backend.name))),
  );
}

function domainsOf(backend: AnyBackend, lines: number, failed: boolean): readonly Domain[] {
  const { verifies, verifiesLarge, reads } = backend;
  if (verifies !== undefined) return [verifies];
  // What it believed was wrong, or it is not known how far it came.
  if (failed) return reads.facts;
  if (lines <= READ_BACK_LINES) return [];
  return verifiesLarge === undefined ? reads.facts : [verifiesLarge];
}

export interface Ahead {
  /** These can be read back: nobody is to write them any more. `expected`: the facts as they should be. */
  begin(domains: readonly Domain[], expected: HostFacts): void;
  /** What was begun for these tells of what was. */
  doubt(domains: Iterable<Domain>): void;
}

/** Of what is to be read back, what this group wrote. */
export function writtenBy(
  group: readonly AnyBackend[],
  soFar: Pick<Outcome, "wrote" | "failures">,
): readonly Domain[] {
  const due = toReadBack(soFar);
  return domainsWritten(group.filter((backend) => soFar.wrote.has(backend))).filter((of) => due.has(of));
}

/** What nobody who is still to write has anything to do with. */
export function readyToRead(written: ReadonlySet<Domain>, toWrite: readonly AnyBackend[]): readonly Domain[] {
  const open = new Set(domainsWritten(toWrite));
  if (NETFILTER.some((domain) => open.has(domain))) for (const domain of NETFILTER) open.add(domain);
  return [...written].filter((domain) => !open.has(domain));
}

/** iptables-nft writes by nf_tables, and nft 1.0.6 lists chains twice when such a commit falls into its listing. */
const NETFILTER: readonly Domain[] = ["iptables", "nft"];

function domainsWritten(backends: readonly AnyBackend[]): readonly Domain[] {
  return backends.flatMap(({ verifies, verifiesLarge }) => verifies ?? verifiesLarge ?? []);
}
