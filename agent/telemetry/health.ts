// gRPC health on the management port's addresses: OVN-Kubernetes' cluster manager asks there whether this node may give egress IPs
// (reference F.2, H-4). In: settings, the links of this host. Out: SERVING for its service for as long as this process answers, but
// for a node that was told to give nothing (`drain`): then the cluster manager takes its egress IPs elsewhere within seconds.
// It does not look at Rounds: an agent that waits for the API server, or fails at something, leaves a dataplane that works, and
// any other answer would take all egress IPs from the node at once.
import { networkInterfaces } from "node:os";
import type { Config } from "../config.ts";
import type { Logger } from "./log.ts";

const SERVICE = "Service_Egress_IP";

/**
 * How often the addresses are looked at, by one system call. The cluster manager asks every 5 s and forgives one failure: after a
 * restart, and where an address is new, it has to be there by then.
 */
const LOOK_MS = 1_000;

export async function serveHealth(
  { health, settings: { managementPort } }: Pick<Config, "health" | "settings">,
  log: Pick<Logger, "info" | "warn">,
  isDraining: () => boolean,
): Promise<{ close(): void }> {
  if (health === undefined) return { close: () => {} };
  const { createHealthServer } = await import("../../lib/grpc-health/index.ts");
  const failing = new Map<string, string>();
  let listening = "";
  const server = createHealthServer({
    ...health,
    status: (service) => (service === SERVICE && !isDraining() ? "SERVING" : "NOT_SERVING"),
    onFailure: (subject, error) => {
      if (error !== undefined && failing.get(subject) !== error.message)
        log.warn({ subject, port: health.port, error: error.message }, "healthNotServed");
      if (error === undefined) {
        if (failing.delete(subject)) log.info({ subject, port: health.port }, "healthServed");
      } else failing.set(subject, error.message);
    },
  });
  const look = () => {
    const addresses = addressesOf(managementPort);
    server.listen(addresses);
    if (addresses.join() === listening) return;
    listening = addresses.join();
    for (const subject of failing.keys())
      if (subject !== health.identity?.certificateFile && !addresses.includes(subject))
        failing.delete(subject);
    log.info({ addresses, port: health.port, tls: health.identity !== undefined }, "healthAddresses");
  };
  look();
  const timer = setInterval(look, LOOK_MS).unref();
  return {
    close: () => {
      clearInterval(timer);
      server.close();
    },
  };
}

/** As the kernel has them at this moment; of a link that is down, none. Link-local ones nobody asks at. */
function addressesOf(link: string): readonly string[] {
  const found = networkInterfaces()[link] ?? [];
  return found
    .flatMap((entry) => (entry.family === "IPv6" && entry.scopeid !== 0 ? [] : [entry.address]))
    .sort();
}
