// `egressip-agent plan` and `facts`: what would change, and what there is. The code of `run` without its writes.
import { readFile } from "node:fs/promises";
import { openHost } from "../assemble.ts";
import type { Config } from "../config.ts";
import { parseFacts, printFacts } from "../inputs/facts-text.ts";
import { DOMAINS } from "../inputs/host.ts";
import { createLoop, type Round } from "../loop.ts";
import type { HostFacts } from "../model/facts.ts";
import { createMode } from "../plan/modes.ts";
import { leaveNorthbound } from "../plan/parts/northbound/leave.ts";
import { nothing } from "../plan/plan.ts";
import type { AnyBackend } from "../sync/backend.ts";
import { createBackends } from "../sync/backends.ts";
import { createContention } from "../sync/contention.ts";
import { noTools } from "../sync/no-tools.ts";
import { carryOut, printSteps } from "../sync/round.ts";
import { assemble, openObjects } from "./parts.ts";

/** What a plan prints of a round. */
interface Planned {
  readonly outcome: Round["outcome"];
  readonly snapshot: Pick<Round["snapshot"], "problems">;
}

/** Exit status of a plan: 0 nothing to do, 2 changes, 1 where something could not be worked out; an error is thrown and ends with 1. */
export async function plan(
  config: Config,
  options: { readonly hostFacts?: string; readonly output: "text" | "json" },
  print: (text: string) => void,
): Promise<number> {
  const round =
    options.hostFacts === undefined ? await planHere(config) : await planFrom(config, options.hostFacts);
  print(options.output === "json" ? planAsJson(round) : planAsText(round));
  if (round.outcome.failures.length > 0) return 1;
  return round.outcome.steps.length === 0 ? 0 : 2;
}

async function planHere(config: Config): Promise<Planned> {
  if (!config.enabled) {
    const host = await openHost(config, { writes: false });
    try {
      return await planNothing(config, host.backends, await host.input.read(new Set(DOMAINS)));
    } finally {
      await host.close();
    }
  }
  const objects = await openObjects(config);
  try {
    const { loop, host } = await assemble(config, (all) => objects.read(all), { writes: false });
    try {
      return await loop.round(new Set(DOMAINS), { write: false, allObjects: true });
    } finally {
      await host.close();
    }
  } finally {
    await objects.close();
  }
}

async function planFrom(config: Config, path: string): Promise<Planned> {
  const facts = readFacts(path, await readFile(path, "utf8"));
  if (!config.enabled) return planNothing(config, createBackends(noTools), facts);
  const objects = await openObjects(config);
  try {
    const loop = createLoop({
      settings: config.settings,
      mode: createMode(config.settings.gatewayMode),
      backends: createBackends(noTools),
      readHost: async () => facts,
      assumeHost: () => {},
      readObjects: (all) => objects.read(all),
      contention: createContention(() => 0),
    });
    return await loop.round(new Set(), { write: false, allObjects: true });
  } finally {
    await objects.close();
  }
}

/** What `--enable-egress-ip=false` has taken away: no object is read for that. */
async function planNothing(
  { settings }: Config,
  backends: readonly AnyBackend[],
  facts: HostFacts,
): Promise<Planned> {
  const plan = { ...nothing, northbound: leaveNorthbound(settings, facts.northbound, false) };
  const outcome = await carryOut(backends, plan, facts, { write: false, held: () => false });
  return { outcome, snapshot: { problems: [] } };
}

function readFacts(path: string, text: string): HostFacts {
  try {
    return parseFacts(text);
  } catch (cause) {
    const why = cause instanceof SyntaxError ? "not JSON" : (cause as Error).message;
    throw new Error(`--host-facts ${path}: ${why}`, { cause });
  }
}

/** Problems, then every step; the text of `plan` and of the golden files of test/scenarios. */
export function planAsText({ outcome, snapshot }: Planned): string {
  const problems = snapshot.problems.map(
    ({ object, path, text }) => `! ${object}${path === "" ? "" : ` ${path}`}: ${text}\n`,
  );
  const failures = outcome.failures.map(({ backend, error }) => `! ${backend}: ${error.message}\n`);
  const nothing = failures.length === 0 ? "nothing to do\n" : "nothing else to do\n";
  const changes = outcome.steps.length === 0 ? nothing : printSteps(outcome.steps);
  const notes = [...problems, ...failures].join("");
  return notes === "" ? changes : `${notes}\n${changes}`;
}

function planAsJson({ outcome, snapshot }: Planned): string {
  const failures = outcome.failures.map(({ backend, error }) => ({ backend, error: error.message }));
  return `${JSON.stringify({ steps: outcome.steps, problems: snapshot.problems, failures }, undefined, 2)}\n`;
}

/** Prints the facts of this host in the form that --host-facts reads. */
export async function facts(config: Config, print: (text: string) => void): Promise<number> {
  const host = await openHost(config, { writes: false, looksAtReference: true });
  try {
    print(printFacts(await host.input.read(new Set(DOMAINS))));
  } finally {
    await host.close();
  }
  return 0;
}
