// `egressip-agent run --enable-egress-ip=false`: a cluster that does not want egress IPs does not pay for them. In: Config. Out: a
// host on which nothing is the agent's; then nothing but the debug socket and a signal are waited for.
import { setTimeout } from "node:timers/promises";
import type { Config } from "../config.ts";
import { serveDebug } from "../telemetry/debug.ts";
import { createLog } from "../telemetry/log.ts";
import { openDisabledMetrics } from "./metrics.ts";
import { removeOurs } from "./uninstall.ts";

const FIRST_RETRY_MS = 1_000;
const LONGEST_RETRY_MS = 30_000;

export async function runDisabled(config: Config): Promise<number> {
  const log = createLog(config.logLevel);
  let removed = false;
  let said: string[] = [];
  const { node, gatewayMode: mode } = config.settings;
  const answers: Readonly<Record<string, () => unknown>> = {
    "/status": () => ({
      node,
      mode,
      enabled: false,
      ready: removed,
      ...(removed ? {} : { error: said.join("") }),
    }),
    "/list": () => [],
  };
  const scraped = await openDisabledMetrics(config, log, () =>
    removed ? undefined : said.join("") || "not all that is ours was removed yet",
  );
  const debug = await serveDebug(config.debugSocket, (path) => answers[path]?.());
  const ending = new AbortController();
  // Not `once`: execa's own listener ends the process when it finds itself the last one.
  const ended = new Promise<NodeJS.Signals>((resolve) => {
    for (const signal of ["SIGTERM", "SIGINT"] as const)
      process.on(signal, () => {
        ending.abort();
        resolve(signal);
      });
  });
  // Without a listener it would end the process, and there is nothing to read again.
  process.on("SIGHUP", () => {});
  log.info({ node, mode, enabled: false }, "agentStarted");
  for (let delay = FIRST_RETRY_MS; !ending.signal.aborted; delay = Math.min(delay * 2, LONGEST_RETRY_MS)) {
    said = [];
    const status = await removeOurs(config, { handBack: false }, (text) => said.push(text)).catch(
      (error: unknown) => {
        said.push(String(error));
        return 1;
      },
    );
    if (status === 0) {
      removed = true;
      log.info({ lines: said.join("").split("\n").slice(0, 50) }, "everythingRemoved");
      break;
    }
    log.error({ error: said.join("") }, "removingFailed");
    await setTimeout(delay, undefined, { signal: ending.signal }).catch(() => {});
  }
  log.info({ signal: await ended }, "agentStopped");
  debug.close();
  scraped.close();
  return 0;
}
