// What there is to scrape, put together. In: Rounds, and what the parts say of themselves when they are asked. Out: the text of a scrape.
// Nothing of it is in the way of a round: figures are worked out when somebody scrapes, and durations are all that is kept.
import { readdirSync } from "node:fs";
import { spawnCounts } from "../../../lib/exec/index.ts";
import type { Round } from "../../loop.ts";
import type { AnyBackend } from "../../sync/backend.ts";
import type { Counters } from "../counters.ts";
import type { Pulse } from "../pulse.ts";
import { type Sample, type SampleLabels, sample } from "./definitions.ts";
import { figuresOf, type Moment } from "./figures.ts";
import { createMetricRegistry, type Observe } from "./registry.ts";
import { createTally } from "./tally.ts";

/** What is told of this moment, each asked at a scrape. */
export interface Told {
  readonly notReady: () => string | undefined;
  readonly contention: () => Moment["contention"];
  readonly northbound: () => Moment["northbound"];
  readonly kubernetes: () => Moment["kubernetes"];
  /** What the kernel counted: costs three short-lived processes. */
  readonly counters: () => Promise<Counters>;
  readonly duplicateClaims: () => Counters["duplicateClaims"];
}

export interface Metrics {
  readonly contentType: string;
  /** A round has ended, `isVerified` as the pulse takes it. */
  took(round: Round, isVerified: boolean): void;
  unreadable(): void;
  announcementFailed(): void;
  /** The same backends, timed. */
  timed(backends: readonly AnyBackend[]): readonly AnyBackend[];
  /** Before there is somebody to ask, only what is counted is told. */
  text(told: Told | undefined): Promise<string>;
  /** Of an agent that gives nothing. */
  disabled(isReady: boolean): Promise<string>;
}

/** Reading the counters rests in proportion to what it took: no scraper makes it cost more than a tenth of the time. */
const REST_PER_READ = 10;

export function createMetrics(
  pulse: Pick<Pulse, "ended">,
  build: SampleLabels<"egressip_agent_build_info">,
): Metrics {
  const registry = createMetricRegistry();
  const tally = createTally();
  let last: Round | undefined;
  let lastSuccess: number | undefined;
  const always = () => [sample("egressip_agent_build_info", 1, build), ...ofProcess()];
  const readCounters = createReading<Counters>();
  return {
    contentType: registry.contentType,
    took: (round, isVerified) => {
      last = round;
      tally.took(round);
      for (const [stage, ms] of Object.entries(round.took) as [keyof Round["took"], number][])
        registry.observe("egressip_agent_round_seconds", ms / 1000, { stage });
      const verified = pulse.ended(round.outcome.steps.length > 0, isVerified);
      if (isVerified) lastSuccess = Date.now();
      if (verified !== undefined)
        registry.observe("egressip_agent_event_to_verified_seconds", verified.seconds, {
          cause: verified.cause,
        });
    },
    unreadable: () => {
      tally.unreadable();
      pulse.ended(false, false);
    },
    announcementFailed: tally.announcementFailed,
    timed: (backends) => backends.map((backend) => timed(backend, registry.observe)),
    text: async (told) => {
      if (told === undefined) return registry.text([...always(), ...tally.samples()]);
      const counters = await readCounters(told.counters);
      return registry.text([
        ...always(),
        ...tally.samples(),
        sample("egressip_agent_enabled", 1, {}),
        ...(lastSuccess === undefined
          ? []
          : [sample("egressip_agent_last_success_timestamp_seconds", lastSuccess / 1000, {})]),
        ...figuresOf({
          counters,
          now: Date.now(),
          ready: told.notReady() === undefined,
          round: last,
          contention: told.contention(),
          northbound: told.northbound(),
          kubernetes: told.kubernetes(),
          duplicateClaims: told.duplicateClaims(),
          tools: spawnCounts(),
        }),
      ]);
    },
    disabled: (isReady) =>
      registry.text([
        ...always(),
        sample("egressip_agent_enabled", 0, {}),
        sample("egressip_agent_ready", Number(isReady), {}),
      ]),
  };
}

function timed(backend: AnyBackend, observe: Observe): AnyBackend {
  // A test holds the names in the table against the list of all backends.
  const name = backend.name as SampleLabels<"egressip_agent_backend_apply_seconds">["backend"];
  return {
    ...backend,
    apply: async (...of) => {
      const start = performance.now();
      try {
        await backend.apply(...of);
      } finally {
        observe("egressip_agent_backend_apply_seconds", (performance.now() - start) / 1000, {
          backend: name,
        });
      }
    },
  };
}

/** One at a time, and none before it has rested; undefined where the last one failed. */
function createReading<T>(): (read: () => Promise<T>) => Promise<T | undefined> {
  let known: Promise<T | undefined> | undefined;
  let restsUntil = 0;
  return (read) => {
    if (known !== undefined && performance.now() < restsUntil) return known;
    const start = performance.now();
    restsUntil = Number.POSITIVE_INFINITY;
    known = read()
      .catch(() => undefined)
      .finally(() => {
        const end = performance.now();
        restsUntil = end + REST_PER_READ * (end - start);
      });
    return known;
  };
}

const startedAt = Date.now() / 1000 - process.uptime();

function ofProcess(): readonly Sample[] {
  const { user, system } = process.cpuUsage();
  return [
    sample("process_start_time_seconds", startedAt, {}),
    sample("process_cpu_seconds_total", (user + system) / 1e6, {}),
    sample("process_resident_memory_bytes", process.memoryUsage.rss(), {}),
    sample("process_open_fds", readdirSync("/proc/self/fd").length, {}),
    sample("nodejs_heap_size_used_bytes", process.memoryUsage().heapUsed, {}),
  ];
}
