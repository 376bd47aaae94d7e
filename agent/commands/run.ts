// `egressip-agent run`: the daemon. In: Config. Out: a host that agrees with the objects, until a signal ends it.
// SIGTERM and SIGINT leave the dataplane as it is, also what a drain has made of it; SIGHUP reads everything again.
import { follow, run as runTool } from "../../lib/exec/index.ts";
import { monitorNetwork } from "../../lib/netlink/index.ts";
import { createNft } from "../../lib/nftables/index.ts";
import type { Host } from "../assemble.ts";
import type { Config } from "../config.ts";
import { DOMAINS } from "../inputs/host.ts";
import type { Round } from "../loop.ts";
import type { Domain } from "../model/facts.ts";
import { lastOf } from "../model/memo.ts";
import { unwritable } from "../model/northbound-problems.ts";
import { watchedAddresses } from "../model/rivals.ts";
import { readCounters } from "../telemetry/counters.ts";
import { serveDebug } from "../telemetry/debug.ts";
import { createDraining, type Draining, LONGEST_DRAIN_S } from "../telemetry/draining.ts";
import { serveHealth } from "../telemetry/health.ts";
import { createJournal } from "../telemetry/journal.ts";
import { createLog, type Logger } from "../telemetry/log.ts";
import { createPulse } from "../telemetry/pulse.ts";
import { createStatus } from "../telemetry/status.ts";
import { createWake } from "../wake.ts";
import { openMetrics } from "./metrics.ts";
import { assemble, openObjects, openReports } from "./parts.ts";

/** Wait after a failed round: doubled up to the longest, with a random part so that nodes do not retry in step. */
const FIRST_RETRY_MS = 200;
const LONGEST_RETRY_MS = 30_000;

/** How often the sizes of our sets are compared: one short-lived process, where a full look costs a dozen. */
const GLANCE_MS = 5_000;

export async function runDaemon(config: Config): Promise<number> {
  const log = createLog(config.logLevel);
  const journal = createJournal(log);
  const pulse = createPulse();
  const wake = pulse.watch(createWake());
  const scraped = await openMetrics(config, log, pulse);
  const objects = await openObjects(config, {
    lasting: true,
    onChange: () => wake.because("objects"),
    onFailure: (error) => log.warn({ error: error.message }, "lastGoodFailed"),
  });
  const reports = await openReports(objects, log);
  const draining = createDraining({
    node: config.settings.node,
    onOrder: () => {
      log.warn("drainOrdered");
      wake.because("reload");
    },
    followed: () => host.northbound.followed(),
  });
  const { loop, host, contention } = await assemble(config, (all) => objects.read(all), {
    writes: true,
    isDraining: draining.isOrdered,
    planned: reports.planned,
    timed: scraped.timed,
    announceFailed: (error) => {
      scraped.announcementFailed();
      log.warn({ error: String(error) }, "announcementFailed");
    },
    gaining: {
      answered: (answers) => log.warn({ answers }, "addressAnswered"),
      failed: (error) => log.warn({ error: String(error) }, "probeFailed"),
    },
    rivals: {
      onChange: () => wake.because("rivals"),
      onProbeFailed: (error) => log.warn({ error: String(error) }, "probeFailed"),
      onListenerEnded: (why) => log.warn({ monitor: "rivals", why }, "monitorEnded"),
    },
    northboundChanged: () => wake.because("northbound"),
  });
  log.info(
    { node: config.settings.node, mode: config.settings.gatewayMode, iptables: host.iptablesBackend },
    "agentStarted",
  );
  if (host.mixed) log.warn({ chosen: host.iptablesBackend }, "iptablesBackendsMixed");
  const status = createStatus(
    config,
    contention,
    () => readCounters(host.counting, host.rivals.counts),
    host.northbound.told,
    objects.told,
    {
      look: host.look,
      others: (facts, address) => host.northbound.others(facts.northbound, address),
    },
  );
  const debug = await serveDebug(config.debugSocket, status.answer, ordersTo(draining));
  scraped.tell({
    notReady: status.notReady,
    contention: contention.list,
    northbound: host.northbound.told,
    kubernetes: objects.told,
    counters: () => readCounters(host.counting, host.rivals.counts),
    duplicateClaims: host.rivals.counts,
  });
  const health = await serveHealth(config, log, draining.isOrdered);
  const watchFor = createWatching(host);
  // A reading that was begun before may not have seen it.
  const told = (domains: readonly Domain[]) => {
    host.input.doubt(domains);
    for (const domain of domains) wake.because(domain);
  };
  const stopWatching = watchHost(told, log);
  const tick = setInterval(() => wake.because("tick"), config.resyncSeconds * 1000);
  const glance = setInterval(() => lookAtSets(host, () => told(["sets"])), GLANCE_MS);
  let ending: NodeJS.Signals | undefined;
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    process.once(signal, () => {
      ending = signal;
      wake.because("reload");
    });
  }
  process.on("SIGHUP", () => wake.because("reload"));

  let failures = 0;
  // What is in doubt stays in doubt until it has been read.
  const unread = new Set<Domain>();
  const retry = createRetry(() => wake.because("reload"));
  let leftoversRetired = false;
  wake.because("reload");
  for (;;) {
    const reasons = await wake.next();
    if (ending !== undefined) break;
    const everything = reasons.has("tick") || reasons.has("reload");
    for (const domain of DOMAINS) if (everything || reasons.has(domain)) unread.add(domain);
    const dirty = new Set(unread);
    const round = await attempt(() => loop.round(dirty, { write: true, allObjects: everything }));
    journal.northbound(host.northbound.told());
    journal.source(objects.told());
    if (everything) host.rivals.askAgain();
    if (round instanceof Error) {
      journal.inputsFailed(round);
      status.failed(round);
      draining.failed(round);
    } else {
      unread.clear();
      journal.round(round);
      status.took(round);
      draining.took(round);
      objects.keep(round);
      reports.took(round);
      watchFor(round);
      wake.rest(dirty, round.took.read);
    }
    const failed = round instanceof Error || round.outcome.failures.length > 0;
    // What was written is read back at once; after a failure with the next attempt, which waits longer each time.
    for (const domain of loop.unverified())
      if (failed) unread.add(domain);
      else wake.now(domain);
    if (!failed && !leftoversRetired) {
      leftoversRetired = true;
      retireLeftovers(host, log);
    }
    scraped.ended(round, !failed && loop.unverified().size === 0);
    failures = failed ? failures + 1 : 0;
    if (failed) retry.after(retryDelay(failures));
    else retry.after(nextAfterContention(contention));
  }
  log.info({ signal: ending }, "agentStopped");
  clearInterval(tick);
  clearInterval(glance);
  stopWatching();
  draining.close();
  debug.close();
  health.close();
  scraped.close();
  reports.close();
  await objects.close();
  await host.close();
  return 0;
}

function ordersTo(draining: Draining): (path: string, query: URLSearchParams) => unknown {
  return (path, query) => {
    if (path !== "/drain") return undefined;
    const seconds = Number(query.get("seconds") ?? "");
    if (!(seconds > 0 && seconds <= LONGEST_DRAIN_S))
      throw new Error(`seconds has to be a number up to ${LONGEST_DRAIN_S}`);
    return draining.order(seconds * 1000);
  };
}

/** What this node answers for now is what somebody else must not. */
function createWatching({ rivals }: Host): (round: Round) => void {
  const watchedOf = lastOf(watchedAddresses);
  return ({ snapshot: { nodes, settings }, plan, outcome: { facts } }) => {
    const watched = watchedOf(nodes.get(settings.node), plan.addresses.hold, facts.network);
    rivals.watch(watched, new Set(facts.network.links.map(({ mac }) => mac)));
  };
}

/** A set that cannot be looked at is read as a whole, and the round says what is wrong. */
function lookAtSets(host: Host, doubtful: () => void): void {
  host.setsIntact().then((intact) => {
    if (!intact) doubtful();
  }, doubtful);
}

function retireLeftovers(host: Host, log: Logger): void {
  host.retireLeftovers().then(
    (found) => {
      if (found) log.warn({ inUse: host.iptablesBackend }, "leftoversRetired");
    },
    // The other backend's tools may not be installed; then nothing of ours is there either.
    (error: unknown) => log.debug({ error: String(error) }, "leftoversUnknown"),
  );
}

async function attempt(make: () => Promise<Round>): Promise<Round | Error> {
  try {
    return await make();
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

function retryDelay(failures: number): number {
  const longest = Math.min(FIRST_RETRY_MS * 2 ** (failures - 1), LONGEST_RETRY_MS);
  return longest * (0.5 + Math.random() / 2);
}

function nextAfterContention(contention: {
  list(): readonly { readonly backend: string }[];
  heldFor(backend: string): number;
}): number | undefined {
  const waits = contention
    .list()
    .map(({ backend }) => contention.heldFor(backend))
    .filter((wait) => wait > 0);
  return waits.length === 0 ? undefined : Math.min(...waits) + 10;
}

/** One timer: a round that fails for the tenth time must not leave ten behind. */
function createRetry(wake: () => void): { after(delayMs: number | undefined): void } {
  let timer: NodeJS.Timeout | undefined;
  return {
    after: (delayMs) => {
      clearTimeout(timer);
      timer = delayMs === undefined ? undefined : setTimeout(wake, delayMs).unref();
    },
  };
}

/** The kernel tells of links, addresses, routes and rules, and of nft transactions; a monitor that ends is started again. */
function watchHost(told: (domains: readonly Domain[]) => void, log: Logger): () => void {
  let closed = false;
  const open = new Map<string, { close(): void }>();
  const keep = (
    name: string,
    domains: readonly Domain[],
    start: (change: () => void, end: (why: string) => void) => { close(): void },
  ) => {
    const change = () => told(domains);
    open.set(
      name,
      start(change, (why) => {
        if (closed) return;
        log.warn({ monitor: name, why }, "monitorEnded");
        setTimeout(() => {
          if (closed) return;
          keep(name, domains, start);
          change(); // whatever happened while nobody listened
        }, 1000).unref();
      }),
    );
  };
  keep("ip", ["network"], (change, end) => monitorNetwork(follow, { change, end }));
  keep("nft", ["iptables", "nft"], (change, end) => createNft(runTool).monitor(follow, change, end));
  return () => {
    closed = true;
    for (const monitor of open.values()) monitor.close();
  };
}

/** `run --once`: a round, and rounds that read back what it wrote until there is nothing left to read back. */
export async function runOnce(config: Config, print: (text: string) => void): Promise<number> {
  const objects = await openObjects(config);
  try {
    const { loop, host } = await assemble(config, (all) => objects.read(all), {
      writes: true,
      gaining: {
        answered: (answers) => {
          for (const { address, mac } of answers) print(`addresses: ${mac} answers for ${address} as well\n`);
        },
        failed: (error) => print(`addresses: ${String(error)}\n`),
      },
    });
    try {
      let dirty: ReadonlySet<Domain> = new Set(DOMAINS);
      for (let attempts = 0; attempts < 5; attempts++) {
        const { outcome } = await loop.round(dirty, { write: true, allObjects: attempts === 0 });
        for (const { backend, error } of outcome.failures) print(`${backend}: ${error.message}\n`);
        const why = unwritable(outcome.facts.northbound, host.northbound.told()?.failure);
        if (why !== undefined && outcome.failures.length === 0) print(`northbound: ${why}\n`);
        if (outcome.failures.length > 0 || why !== undefined) return 1;
        dirty = loop.unverified();
        if (dirty.size === 0) return 0;
      }
      print("the host did not come to rest: something undoes what was written\n");
      return 1;
    } finally {
      await host.close();
    }
  } finally {
    await objects.close();
  }
}
