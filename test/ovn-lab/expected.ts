// What tests with the OVN lab say often: names of suites with the reason why they are skipped, lines that `view` is to give. Pure
// but for asking whether this machine can run it.
import { type Family, families } from "../lab/topology.ts";
import { noOvn, type OvnSuite } from "../support/ovn-programs.ts";
import { canRunKernelTests } from "../support/privileged.ts";
import type { OvnLab } from "./lab.ts";
import { type OvnNode, type OvnPod, ovnNodePlans } from "./topology.ts";

/** Why the lab cannot be made here with that release's OVN. */
export const noLab = (suite: OvnSuite = "trixie") => canRunKernelTests() ?? noOvn(suite);

export const named = (what: string, why: string | undefined) =>
  why === undefined ? what : `${what} (not here: ${why})`;

/** What `view` gives when everybody sees the same server and sources by family. */
export function lines(
  from: string,
  to: string,
  server: string,
  sources: Readonly<Record<Family, string>>,
): string[] {
  return ["tcp", "udp"].flatMap((protocol) =>
    families.map((family) => `${from} ${to} ${protocol} ${family}: ${server} saw ${sources[family]}`),
  );
}

export const plan = (node: OvnNode) => ovnNodePlans[node];
export const podOf = (lab: OvnLab, name: string): OvnPod => {
  const pod = lab.pods.find((other) => other.name === name);
  if (pod === undefined) throw new Error(`no pod ${name}`);
  return pod;
};
