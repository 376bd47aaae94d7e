// What is served at --metrics-address, for a daemon. In: Config. Out: where Rounds are told; nothing of it is loaded or kept where no
// address was given.
import manifest from "../../package.json" with { type: "json" };
import type { Config } from "../config.ts";
import type { Round } from "../loop.ts";
import type { AnyBackend } from "../sync/backend.ts";
import type { Logger } from "../telemetry/log.ts";
import type { Told } from "../telemetry/metrics/metrics.ts";
import type { Pulse } from "../telemetry/pulse.ts";

interface Scraped {
  readonly timed: (backends: readonly AnyBackend[]) => readonly AnyBackend[];
  announcementFailed(): void;
  /** From now on it is known whom to ask. */
  tell(told: Told): void;
  /** What came of a round; `isVerified`: without a failure, and with nothing left to read back. */
  ended(round: Round | Error, isVerified: boolean): void;
  close(): void;
}

const NOBODY: Scraped = {
  timed: (backends) => backends,
  announcementFailed: () => {},
  tell: () => {},
  ended: () => {},
  close: () => {},
};

/** Answers from here on: an agent that waits for something at its start lives. */
export async function openMetrics(
  config: Pick<Config, "metrics" | "settings">,
  log: Logger,
  pulse: Pulse,
): Promise<Scraped> {
  const at = config.metrics;
  if (at === undefined) return NOBODY;
  const { metrics, serveHttp } = await load(config, pulse);
  let told: Told | undefined;
  let wasVerified = false;
  const server = serveHttp(at, log, {
    stuck: pulse.stuck,
    notReady: () => (told === undefined ? "nothing has been read yet" : told.notReady()),
    metrics: () => metrics.text(told),
    contentType: metrics.contentType,
  });
  return {
    timed: metrics.timed,
    announcementFailed: metrics.announcementFailed,
    tell: (of) => {
      const notReady = () => of.notReady() ?? (wasVerified ? undefined : "no round has been verified yet");
      told = { ...of, notReady };
    },
    ended: (round, isVerified) => {
      wasVerified ||= isVerified;
      if (round instanceof Error) metrics.unreadable();
      else metrics.took(round, isVerified);
    },
    close: server.close,
  };
}

/** Of an agent that gives nothing: whether it lives, and whether it has taken away what was its own. */
export async function openDisabledMetrics(
  config: Pick<Config, "metrics" | "settings">,
  log: Logger,
  notReady: () => string | undefined,
): Promise<Pick<Scraped, "close">> {
  const at = config.metrics;
  if (at === undefined) return NOBODY;
  const { metrics, serveHttp } = await load(config, { ended: () => undefined });
  return serveHttp(at, log, {
    stuck: () => undefined,
    notReady,
    metrics: () => metrics.disabled(notReady() === undefined),
    contentType: metrics.contentType,
  });
}

/** The client of Prometheus is loaded here, and only here. */
async function load({ settings }: Pick<Config, "settings">, pulse: Pick<Pulse, "ended">) {
  const [{ createMetrics }, { serveHttp }] = await Promise.all([
    import("../telemetry/metrics/metrics.ts"),
    import("../telemetry/http.ts"),
  ]);
  const build = {
    version: manifest.version,
    node_version: process.versions.node,
    gateway_mode: settings.gatewayMode,
  };
  return { metrics: createMetrics(pulse, build), serveHttp };
}
