// `egressip-agent uninstall`: a round that wants nothing. What is ours is found by its marks of ownership, not by manifests.
import { ToolError } from "../../lib/exec/index.ts";
import { openHost } from "../assemble.ts";
import type { Config } from "../config.ts";
import { DOMAINS } from "../inputs/host.ts";
import { forgetLastGood } from "../inputs/kubernetes/last-good.ts";
import type { IntentRecord } from "../model/facts.ts";
import { unwritable } from "../model/northbound-problems.ts";
import { type HandedBack, handBackHost } from "../plan/parts/hand-back.ts";
import { leaveNorthbound } from "../plan/parts/northbound/leave.ts";
import { nothing } from "../plan/plan.ts";
import { carryOut, type Failure, printSteps } from "../sync/round.ts";
import { isAnswered } from "../telemetry/debug.ts";
import { withdrawAnnotation } from "./withdraw-annotation.ts";

type Backends = readonly ("nft" | "legacy")[];

/** What OVN-Kubernetes has programmed is seen in the backend that is in use, so to hand over begins there. */
async function backendsInTurn(config: Config, handBack: boolean): Promise<Backends> {
  if (!handBack) return ["nft", "legacy", "nft"];
  const host = await openHost(config, { writes: false });
  await host.close();
  return host.iptablesBackend === "nft" ? ["nft", "legacy", "nft"] : ["legacy", "nft", "legacy"];
}

export async function uninstall(
  config: Config,
  options: { readonly handBack: boolean },
  print: (text: string) => void,
): Promise<number> {
  if (await isAnswered(config.debugSocket)) {
    throw new Error(
      `${config.debugSocket}: the agent is running and would put everything back; end it first`,
    );
  }
  return removeOurs(config, options, print);
}

/** Takes away what is ours, once; nobody else may be at it. Exit status: 0 it is gone, 1 something could not be removed. */
export async function removeOurs(
  config: Config,
  { handBack }: { readonly handBack: boolean },
  print: (text: string) => void,
): Promise<number> {
  // Rules that an earlier start left in the other iptables backend act as well, so both are cleared (known-faults BL-60).
  // A set is released by the last rule that names it, hence the second look; only what fails then has failed.
  let failures: readonly Failure[] = [];
  let others: readonly (readonly [node: string, rows: number])[] = [];
  let handedBack: HandedBack | undefined;
  let record: IntentRecord | undefined;
  for (const iptablesBackend of await backendsInTurn(config, handBack)) {
    const host = await openHost({ ...config, iptablesBackend }, { writes: true, looksAtReference: handBack });
    const facts = await host.input.read(new Set(DOMAINS)).catch((error: unknown) => {
      if (iptablesBackend === "legacy" && error instanceof ToolError) return undefined; // this host has no legacy tools
      throw error;
    });
    if (facts === undefined) {
      await host.close();
      continue;
    }
    record ??= facts.record;
    const why = unwritable(facts.northbound, host.northbound.told()?.failure);
    if (why !== undefined) {
      await host.close();
      // Taken away here alone, the rows would go on leading pods to a kernel that knows nothing of them.
      print(`! northbound: ${why}; nothing was removed\n`);
      return 1;
    }
    const plan = {
      ...nothing,
      ...(handBack && handedBack === undefined ? handBackHost(facts) : handedBack),
      northbound: leaveNorthbound(config.settings, facts.northbound, handBack),
    };
    const outcome = await carryOut(host.backends, plan, facts, { write: true, held: () => false });
    await host.close();
    failures = outcome.failures;
    if (plan.reference.kind === "hand-back") {
      // The other backend does not show what OVN-Kubernetes goes on with, so nothing is taken away by it after a failure.
      if (failures.length > 0) break;
      handedBack = { ...plan, routes: [], reference: { ...plan.reference, flows: [] } };
    }
    if (outcome.steps.length > 0) print(printSteps(outcome.steps));
    others = [...facts.northbound.writers].filter(([name]) => name !== config.settings.node);
  }
  for (const [name, rows] of others)
    print(`northbound: ${rows} rows of node ${name || "(none)"} stay, and what its pods share with them\n`);
  for (const { backend, error } of failures) print(`! ${backend}: ${error.message}\n`);
  if (failures.length > 0) return 1;
  await forgetLastGood(config.stateDirectory);
  // What is handed back is on its link still.
  const isSaid = handBack || record === undefined || (await withdrawAnnotation(config, record, print));
  return isSaid ? 0 : 1;
}
