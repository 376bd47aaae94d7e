// Intent, written down before it is carried out: which addresses and sysctl changes are ours, and what the node's annotation
// says of them, before an address appears and until it is gone. In: plan, facts. Out: the state file.
// Without it nobody could tell an egress IP from the node's own address after a crash (known-faults BL-43).

import type { HostFacts, IntentRecord } from "../model/facts.ts";
import { sortedAddresses } from "../model/ip.ts";
import { onLink } from "../model/on-link.ts";
import type { Plan } from "../plan/plan.ts";
import type { Backend } from "./backend.ts";
import type { Tools } from "./tools.ts";

/** The whole record as it has to be: the file is rewritten, never edited. */
export type RecordChange = IntentRecord;

export function record(tools: Pick<Tools, "writeRecord">): Backend<RecordChange> {
  return {
    name: "record",
    reads: { plan: ["addresses", "annotation", "sysctls"], facts: ["record", "sysctls", "network"] },
    verifies: undefined,
    diff: (plan, facts) => {
      const wanted = wantedRecord(plan, facts);
      const both = union(facts.record, wanted);
      return {
        establish: same(both, facts.record) ? [] : [both],
        retire: same(wanted, facts.record) ? [] : [wanted],
      };
    },
    print: (changes) => changes.map((change) => JSON.stringify(change)),
    predict: (facts, changes) => ({ ...facts, record: changes.at(-1) ?? facts.record }),
    apply: async (changes) => {
      const last = changes.at(-1);
      if (last !== undefined) await tools.writeRecord(last);
    },
  };
}

function wantedRecord(plan: Plan, facts: HostFacts): IntentRecord {
  const original = (path: string) => facts.record.sysctls[path] ?? facts.sysctls[path];
  return tidy({
    addresses: plan.addresses.hold.map(({ link, address }) => ({ link, address })),
    sysctls: Object.fromEntries(
      Object.keys(plan.sysctls).flatMap((path) => {
        const value = original(path);
        return value === undefined ? [] : [[path, value]];
      }),
    ),
    secondaryHostEgressIPs: plan.annotation.listed,
    withdrawnEgressIPs: plan.annotation.withdrawn,
  });
}

/** What was taken out of the annotation is noted with what ends: until then the recorded addresses tell as much. */
function union(now: IntentRecord, wanted: IntentRecord): IntentRecord {
  return tidy({
    ...now,
    addresses: [...now.addresses, ...wanted.addresses],
    sysctls: { ...wanted.sysctls, ...now.sysctls },
    secondaryHostEgressIPs: [...(now.secondaryHostEgressIPs ?? []), ...(wanted.secondaryHostEgressIPs ?? [])],
  });
}

function tidy(record: IntentRecord): IntentRecord {
  const addresses = new Map(record.addresses.map((entry) => [onLink(entry), entry]));
  const sorted = [...addresses]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([, { link, address }]) => ({ link, address }));
  const sysctls = Object.entries(record.sysctls).sort(([a], [b]) => (a < b ? -1 : 1));
  const listed = sortedAddresses(new Set(record.secondaryHostEgressIPs));
  const withdrawn = sortedAddresses(new Set(record.withdrawnEgressIPs));
  return {
    addresses: sorted,
    sysctls: Object.fromEntries(sysctls),
    ...(listed.length > 0 ? { secondaryHostEgressIPs: listed } : {}),
    ...(withdrawn.length > 0 ? { withdrawnEgressIPs: withdrawn } : {}),
  };
}

function same(a: IntentRecord, b: IntentRecord): boolean {
  return JSON.stringify(tidy(a)) === JSON.stringify(tidy(b));
}
