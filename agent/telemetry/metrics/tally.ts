// What happened so far, added up from rounds. In: Rounds, in their order, and what befalls between them. Out: samples. Pure but for
// the sums that it keeps. Series whose labels are known begin at 0, so that the first time is seen as one.
import type { Round } from "../../loop.ts";
import { type MetricName, type Sample, type SampleLabels, seriesOf } from "./definitions.ts";
import { driftOf } from "./drift.ts";

export interface Tally {
  took(round: Round): void;
  /** A round could not even begin. */
  unreadable(): void;
  announcementFailed(): void;
  samples(): readonly Sample[];
}

const NAMES = [
  "egressip_agent_rounds_total",
  "egressip_agent_backend_errors_total",
  "egressip_agent_backend_operations_total",
  "egressip_agent_drift_repaired_total",
  "egressip_agent_announcements_total",
  "egressip_agent_announcement_failures_total",
] as const satisfies readonly MetricName[];

type Name = (typeof NAMES)[number];
/** Backends have their names as text; a test holds the table against the list of all of them. */
type Labels<N extends Name> = { readonly [L in keyof SampleLabels<N>]: string };

export function createTally(): Tally {
  const sums = new Map<string, { readonly sample: Omit<Sample, "value">; value: number }>();
  const add = <N extends Name>(name: N, labels: Labels<N>, by = 1) => {
    const key = `${name} ${Object.entries(labels).sort().join(" ")}`;
    const known = sums.get(key);
    if (known === undefined) sums.set(key, { sample: { name, labels }, value: by });
    else known.value += by;
  };
  for (const name of NAMES) for (const labels of seriesOf(name)) add(name, labels as Labels<typeof name>, 0);
  let before: Round | undefined;
  return {
    took: (round) => {
      const { steps, failures } = round.outcome;
      const result = failures.length > 0 ? "failed" : steps.length > 0 ? "changed" : "unchanged";
      add("egressip_agent_rounds_total", { result });
      for (const { backend, phase } of failures)
        add("egressip_agent_backend_errors_total", { backend, phase });
      const failed = new Set(failures.map(({ backend, phase }) => `${backend} ${phase}`));
      for (const { backend, phase, lines } of steps) {
        if (failed.has(`${backend} ${phase}`)) continue;
        add("egressip_agent_backend_operations_total", { backend, phase }, lines.length);
        if (backend === "announce" && phase === "establish")
          add("egressip_agent_announcements_total", {}, lines.length);
      }
      for (const { backend, phase, lines } of driftOf(before, round)) {
        const kind = phase === "establish" ? "put_back" : "taken_away";
        add("egressip_agent_drift_repaired_total", { backend, kind }, lines.length);
      }
      before = round;
    },
    unreadable: () => add("egressip_agent_rounds_total", { result: "unreadable" }),
    announcementFailed: () => add("egressip_agent_announcement_failures_total", {}),
    samples: () => [...sums.values()].map(({ sample, value }) => ({ ...sample, value })),
  };
}
