// What the Node object says of egress IPs that are on none of its links any more, at the end of all: the entries of this agent leave the
// annotation. In: the record as it was before they were removed. Out: a line for who uninstalls, and whether it is done. What could not be
// taken out stays recorded, so that the next uninstall tries again.
import type { Config } from "../config.ts";
import { openRecord } from "../inputs/record.ts";
import type { IntentRecord } from "../model/facts.ts";
import { SECONDARY_KEY } from "../telemetry/reports/annotation.ts";

export async function withdrawAnnotation(
  config: Config,
  record: IntentRecord,
  print: (text: string) => void,
): Promise<boolean> {
  const ours = new Set(record.addresses.map(({ address }) => address));
  const listed = (record.secondaryHostEgressIPs ?? []).filter((address) => ours.has(address));
  if (listed.length === 0) return true;
  const { source } = config;
  const { node } = config.settings;
  const isReachable =
    source.kind === "kubernetes" &&
    (source.kubeconfig !== undefined ||
      source.server !== undefined ||
      process.env["KUBERNETES_SERVICE_HOST"] !== undefined);
  if (!isReachable) {
    print(
      `annotation: ${SECONDARY_KEY} of the Node may list ${listed.join(", ")} still; with --node and --kubeconfig uninstall takes that out\n`,
    );
    return true;
  }
  try {
    const { withdrawSecondary } = await import("../assemble-kubernetes.ts");
    const gone = await withdrawSecondary(config, listed);
    if (gone.length > 0) print(`annotation: Node ${node} does not list ${gone.join(", ")} any more\n`);
    return true;
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    const addresses = record.addresses.filter(({ address }) => listed.includes(address));
    await openRecord(config.stateDirectory).write({ addresses, sysctls: {}, secondaryHostEgressIPs: listed });
    print(
      `! annotation: Node ${node} may list ${listed.join(", ")} in ${SECONDARY_KEY} still: ${why}; uninstall again when the server answers\n`,
    );
    return false;
  }
}
