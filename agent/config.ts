// Settings from flags, environment and file. In: argv's options, EGRESSIP_… variables, --config FILE. Out: Config, or one ConfigError.
// A flag beats the environment, the environment beats the file, the file beats the default.
import { readFileSync } from "node:fs";
import { isIP } from "node:net";
import { parse } from "yaml";
import { type Endpoint, parseEndpoints } from "../lib/ovsdb-client/pure.ts";
import { type Cidr, parseCidr } from "./model/ip.ts";
import { layoutOf } from "./model/marks.ts";
import type { Settings } from "./model/settings.ts";

/** A setting that cannot be used; the process ends with status 78 (sysexits EX_CONFIG). */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
}

export interface Config {
  readonly settings: Settings;
  readonly source: Source;
  /** False: what was programmed is taken away, and nothing is read or watched. */
  readonly enabled: boolean;
  readonly debugSocket: string;
  readonly stateDirectory: string;
  readonly iptablesBackend: "auto" | "nft" | "legacy";
  readonly resyncSeconds: number;
  readonly logLevel: string;
  /** Undefined: OVN is left alone. */
  readonly northbound: NorthboundConfig | undefined;
  /** Undefined: nobody is answered. */
  readonly health: HealthConfig | undefined;
  /** Undefined: nobody can scrape or probe. */
  readonly metrics: MetricsAddress | undefined;
}

export interface MetricsAddress {
  readonly host: string;
  readonly port: number;
}

export interface NorthboundConfig {
  readonly endpoints: string;
  /** Files, for ssl: endpoints; read again when they change. */
  readonly tls: { readonly ca: string; readonly certificate: string; readonly key: string } | undefined;
}

export interface HealthConfig {
  readonly port: number;
  /** Left out: plain text. */
  readonly identity?: { readonly certificateFile: string; readonly keyFile: string };
}

/** Where the objects are read. */
export type Source =
  | { readonly kind: "manifests"; readonly directory: string }
  | {
      readonly kind: "kubernetes";
      /** Undefined: what kubectl would use, else the pod's service account. */
      readonly kubeconfig: string | undefined;
      /** Asked instead of the server that is configured. */
      readonly server: string | undefined;
    };

interface Option {
  /** Long flag without dashes; also the key in the file. The variable is EGRESSIP_ and the flag in capitals. */
  readonly flag: string;
  readonly value: string;
  readonly fallback?: string;
  /** What it is where nothing says it, in words: depends on others. */
  readonly otherwise?: string;
  readonly help: string;
}

const DEFAULT_MARK_MASK = "0x7ff00000";

export const OPTIONS: readonly Option[] = [
  { flag: "node", value: "NAME", help: "name of this node, as in Node objects and EgressIP status" },
  { flag: "gateway-mode", value: "local|shared", help: "how the cluster network leaves nodes" },
  {
    flag: "source",
    value: "kubernetes|manifests",
    otherwise: "manifests with --manifests, else kubernetes",
    help: "where the objects are read",
  },
  {
    flag: "manifests",
    value: "DIR",
    fallback: "none",
    help: "folder of Kubernetes YAML, as the source of truth",
  },
  {
    flag: "kubeconfig",
    value: "FILE",
    fallback: "none",
    help: "how to reach the API server; none looks where kubectl does, then for the pod's service account",
  },
  {
    flag: "kubernetes-server",
    value: "URL",
    fallback: "none",
    help: "asked instead of the configured API server: one that is reached before services work",
  },
  {
    flag: "enable-egress-ip",
    value: "true|false",
    fallback: "true",
    help: "false takes away all that is ours, and reads and watches nothing",
  },
  {
    flag: "cluster-networks",
    value: "CIDR,…",
    help: "pod networks of the cluster; never leave with an egress IP",
  },
  {
    flag: "service-networks",
    value: "CIDR,…",
    help: "service networks of the cluster; never leave with an egress IP",
  },
  {
    flag: "exempt-networks",
    value: "CIDR,…",
    fallback: "100.64.0.0/16,100.88.0.0/16,169.254.0.0/16,fd98::/64,fd97::/64,fd69::/112",
    help: "further destinations that keep the pod's source: join, transit and masquerade networks",
  },
  {
    flag: "management-port",
    value: "LINK",
    fallback: "ovn-k8s-mp0",
    help: "link by which pods reach this host's kernel",
  },
  {
    flag: "mark-mask",
    value: "MASK",
    fallback: DEFAULT_MARK_MASK,
    help: "contiguous bits of the packet mark to use",
  },
  {
    flag: "when-unready",
    value: "drop|node-ip",
    fallback: "drop",
    help: "what happens to selected pods without a ready egress IP",
  },
  {
    flag: "existing-connections",
    value: "keep|cut",
    fallback: "keep",
    help: "connections that were open before the pod was selected",
  },
  { flag: "random-fully", value: "true|false", fallback: "false", help: "randomise source ports of SNAT" },
  {
    flag: "manage-forwarding",
    value: "true|false",
    fallback: "false",
    help: "turn forwarding on at links that host an egress IP, instead of reporting it off",
  },
  {
    flag: "iptables-backend",
    value: "auto|nft|legacy",
    fallback: "auto",
    help: "which iptables this host uses",
  },
  {
    flag: "resync-seconds",
    value: "N",
    fallback: "60",
    help: "how often everything is read again although nothing woke us",
  },
  {
    flag: "debug-socket",
    value: "PATH",
    fallback: "/run/egressip-agent/debug.sock",
    help: "where status, list and explain ask",
  },
  {
    flag: "state-dir",
    value: "DIR",
    fallback: "/var/lib/egressip-agent",
    help: "where intent is recorded before it is carried out",
  },
  {
    flag: "ovn-nb",
    value: "ENDPOINTS",
    fallback: "none",
    help: "OVN northbound database, as ovn-nbctl's --db takes it; none leaves OVN alone",
  },
  { flag: "ovn-nb-ca", value: "FILE", fallback: "none", help: "certificates to trust for ssl: endpoints" },
  { flag: "ovn-nb-certificate", value: "FILE", fallback: "none", help: "own certificate for ssl: endpoints" },
  { flag: "ovn-nb-key", value: "FILE", fallback: "none", help: "key of the own certificate" },
  {
    flag: "ovn-owner",
    value: "NAME",
    fallback: "egressip-agent",
    help: "k8s.ovn.org/owner-controller of our rows in the database",
  },
  {
    flag: "adopt",
    value: "true|false",
    fallback: "false",
    help: "take over what OVN-Kubernetes has for egress IPs: its rows, and what it programmed in the kernel",
  },
  {
    flag: "disable-snat-multiple-gws",
    value: "true|false",
    fallback: "false",
    help: "as in OVN-Kubernetes: each pod has an SNAT row of its own on its gateway router",
  },
  {
    flag: "health-port",
    value: "PORT",
    fallback: "0",
    help: "gRPC health for OVN-Kubernetes' cluster manager, on the management port's addresses; 0 for none",
  },
  {
    flag: "health-certificate",
    value: "FILE",
    fallback: "none",
    help: "certificate to answer with; none takes that of ssl: endpoints, and where there are none, plain text",
  },
  { flag: "health-key", value: "FILE", fallback: "none", help: "key of that certificate" },
  {
    flag: "metrics-address",
    value: "ADDRESS:PORT",
    fallback: "none",
    help: "where /metrics, /livez and /readyz are served, such as 127.0.0.1:9409 or [::]:9409",
  },
  { flag: "log-level", value: "LEVEL", fallback: "info", help: "trace, debug, info, warn or error" },
];

export type Texts = Readonly<Record<string, string | undefined>>;

export function variableOf(flag: string): string {
  return `EGRESSIP_${flag.toUpperCase().replaceAll("-", "_")}`;
}

/** Texts of all settings by flag. Throws ConfigError for a file that cannot be read or holds unknown keys. */
export function gather(flags: Texts, environment: Texts): Texts {
  const file = readConfigFile(flags["config"] ?? environment["EGRESSIP_CONFIG"]);
  return Object.fromEntries(
    OPTIONS.map(({ flag, fallback }) => [
      flag,
      flags[flag] ?? environment[variableOf(flag)] ?? file[flag] ?? fallback,
    ]),
  );
}

function readConfigFile(path: string | undefined): Texts {
  if (path === undefined) return {};
  let value: unknown;
  try {
    value = parse(readFileSync(path, "utf8"), { schema: "failsafe" });
  } catch (error) {
    throw new ConfigError(`--config ${path}: ${(error as Error).message.split("\n")[0]}`);
  }
  // Nothing between two markers is an empty text under this schema.
  if (value === null || value === undefined || value === "") return {};
  if (typeof value !== "object" || Array.isArray(value))
    throw new ConfigError(`--config ${path}: must be a mapping of settings`);
  const texts: Record<string, string> = {};
  for (const [key, entry] of Object.entries(value)) {
    if (!OPTIONS.some(({ flag }) => flag === key))
      throw new ConfigError(`--config ${path}: unknown setting ${JSON.stringify(key)}`);
    const isList = Array.isArray(entry) && entry.every((item) => typeof item === "string");
    const text: unknown = isList ? entry.join(",") : entry;
    if (typeof text !== "string")
      throw new ConfigError(`--config ${path}: ${key} must be a text or a list of texts`);
    texts[key] = text;
  }
  return texts;
}

/** Checks every setting. Throws ConfigError naming the first wrong one, by flag and variable, with what is allowed. */
export function parseConfig(texts: Texts): Config {
  const bad = (flag: string, why: string): ConfigError =>
    new ConfigError(`--${flag} (${variableOf(flag)}): ${why}`);
  const text = (flag: string): string => {
    const value = texts[flag];
    if (value === undefined || value === "") throw bad(flag, "is required");
    return value;
  };
  const oneOf = <T extends string>(flag: string, ...allowed: readonly T[]): T => {
    const value = text(flag);
    const found = allowed.find((candidate) => candidate === value);
    if (found === undefined) throw bad(flag, `must be ${allowed.join(" or ")}, not ${JSON.stringify(value)}`);
    return found;
  };
  const networks = (flag: string): readonly Cidr[] =>
    text(flag)
      .split(",")
      .map((part) => {
        const cidr = parseCidr(part.trim());
        if (cidr === undefined || cidr.length === 0)
          throw bad(flag, `${JSON.stringify(part)} is not a network such as 10.244.0.0/16`);
        return cidr;
      });
  const path = (flag: string): string => {
    const value = text(flag);
    if (!value.startsWith("/")) throw bad(flag, `must be an absolute path, not ${JSON.stringify(value)}`);
    return value;
  };
  const matching = (flag: string, shape: RegExp, what: string): string => {
    const value = text(flag);
    if (!shape.test(value)) throw bad(flag, `must be ${what}, not ${JSON.stringify(value)}`);
    return value;
  };
  const northbound = northboundConfig(text, path, bad);
  const resyncSeconds = Number(matching("resync-seconds", /^[1-9][0-9]{0,5}$/, "a whole number of seconds"));
  return {
    settings: Object.freeze({
      node: matching("node", /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/, "a node name"),
      gatewayMode: oneOf("gateway-mode", "local", "shared"),
      clusterNetworks: networks("cluster-networks"),
      serviceNetworks: networks("service-networks"),
      exemptNetworks: networks("exempt-networks"),
      managementPort: matching("management-port", /^[a-zA-Z0-9][-a-zA-Z0-9_.]{0,14}$/, "a link name"),
      markMask: markMask(text("mark-mask"), (why) => bad("mark-mask", why)),
      whenUnready: oneOf("when-unready", "drop", "node-ip"),
      existingConnections: oneOf("existing-connections", "keep", "cut"),
      randomFully: oneOf("random-fully", "true", "false") === "true",
      manageForwarding: oneOf("manage-forwarding", "true", "false") === "true",
      northboundOwner: matching("ovn-owner", /^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$/, "a name"),
      adopt: oneOf("adopt", "true", "false") === "true",
      snatPerPod: oneOf("disable-snat-multiple-gws", "true", "false") === "true",
      draining: false,
    }),
    northbound,
    health: healthConfig(text, path, bad, northbound),
    metrics: metricsAddress(text("metrics-address"), (why) => bad("metrics-address", why)),
    source: sourceOf(
      texts["source"] === undefined ? undefined : oneOf("source", "kubernetes", "manifests"),
      text,
      path,
      matching,
    ),
    enabled: oneOf("enable-egress-ip", "true", "false") === "true",
    debugSocket: path("debug-socket"),
    stateDirectory: path("state-dir"),
    iptablesBackend: oneOf("iptables-backend", "auto", "nft", "legacy"),
    resyncSeconds,
    logLevel: oneOf("log-level", "trace", "debug", "info", "warn", "error"),
  };
}

type Matching = (flag: string, shape: RegExp, what: string) => string;

function sourceOf(
  said: string | undefined,
  text: (flag: string) => string,
  path: (flag: string) => string,
  matching: Matching,
): Source {
  const unlessNone = (flag: string, read: (flag: string) => string) =>
    text(flag) === "none" ? undefined : read(flag);
  const directory = unlessNone("manifests", text);
  const kubeconfig = unlessNone("kubeconfig", path);
  const server = unlessNone("kubernetes-server", (flag) =>
    matching(flag, /^https?:\/\/[^/?#\s]+(\/[^?#\s]*)?$/, "a URL such as https://10.0.0.1:6443"),
  );
  const kind = said ?? (directory === undefined ? "kubernetes" : "manifests");
  if (kind === "kubernetes") return { kind, kubeconfig, server };
  return {
    kind: "manifests",
    directory: directory ?? matching("manifests", /^(?!none$)/, "a folder with --source manifests"),
  };
}

function northboundConfig(
  text: (flag: string) => string,
  path: (flag: string) => string,
  bad: (flag: string, why: string) => ConfigError,
): NorthboundConfig | undefined {
  const endpoints = text("ovn-nb");
  const file = (flag: string) => (text(flag) === "none" ? undefined : path(flag));
  const [ca, certificate, key] = [file("ovn-nb-ca"), file("ovn-nb-certificate"), file("ovn-nb-key")];
  if (endpoints === "none") return undefined;
  let parsed: readonly Endpoint[];
  try {
    parsed = parseEndpoints(endpoints);
  } catch (error) {
    throw bad("ovn-nb", (error as Error).message);
  }
  if (!parsed.some(({ kind }) => kind === "ssl")) return { endpoints, tls: undefined };
  if (ca === undefined) throw bad("ovn-nb-ca", "is required for ssl: endpoints");
  if (certificate === undefined) throw bad("ovn-nb-certificate", "is required for ssl: endpoints");
  if (key === undefined) throw bad("ovn-nb-key", "is required for ssl: endpoints");
  return { endpoints, tls: { ca, certificate, key } };
}

/** As OVN-Kubernetes': what this node shows to the database, it shows to who asks for its health. */
function healthConfig(
  text: (flag: string) => string,
  path: (flag: string) => string,
  bad: (flag: string, why: string) => ConfigError,
  northbound: NorthboundConfig | undefined,
): HealthConfig | undefined {
  const port = /^[0-9]{1,5}$/.test(text("health-port")) ? Number(text("health-port")) : Number.NaN;
  if (!(port <= 65535))
    throw bad("health-port", `must be a port, or 0, not ${JSON.stringify(text("health-port"))}`);
  const file = (flag: string) => (text(flag) === "none" ? undefined : path(flag));
  const [certificateFile, keyFile] = [file("health-certificate"), file("health-key")];
  if (certificateFile === undefined && keyFile !== undefined)
    throw bad("health-certificate", "is required with --health-key");
  if (certificateFile !== undefined && keyFile === undefined)
    throw bad("health-key", "is required with --health-certificate");
  if (port === 0) return undefined;
  if (certificateFile !== undefined && keyFile !== undefined)
    return { port, identity: { certificateFile, keyFile } };
  const { tls } = northbound ?? {};
  if (tls !== undefined) return { port, identity: { certificateFile: tls.certificate, keyFile: tls.key } };
  return { port };
}

/** An address and no name: what a name leads to may be another address tomorrow. */
function metricsAddress(value: string, bad: (why: string) => ConfigError): MetricsAddress | undefined {
  if (value === "none") return undefined;
  const [, six, four, digits] = /^(?:\[([0-9a-fA-F:.]+)\]|([0-9.]+)):([1-9][0-9]{0,4})$/.exec(value) ?? [];
  const host = six ?? four ?? "";
  const port = Number(digits);
  if (isIP(host) !== (six === undefined ? 4 : 6) || port > 65535)
    throw bad(`must be ADDRESS:PORT, such as 127.0.0.1:9409 or [::1]:9409, not ${JSON.stringify(value)}`);
  return { host, port };
}

/** Bits of the mark that others use, and who (host-path notes, "Marks"). */
const TAKEN: readonly { readonly mask: number; readonly by: string }[] = [
  { mask: 0xc000, by: "kube-proxy (0x4000 and 0x8000)" },
  { mask: 0x0f00, by: "Cilium (0xf00)" },
  { mask: 0x07ff, by: "OVN-Kubernetes (42, 1008, 1009)" },
  { mask: 0xfffff, by: "OVN-Kubernetes (4096 and up, 50000 to 55000, 0x1745ec)" },
];

function markMask(value: string, bad: (why: string) => ConfigError): number {
  const mask = /^0x[0-9a-fA-F]{1,8}$/.test(value) ? Number.parseInt(value, 16) : Number.NaN;
  if (layoutOf(mask) === undefined)
    throw bad(
      `must be contiguous bits, at least five, such as ${DEFAULT_MARK_MASK}, not ${JSON.stringify(value)}`,
    );
  const clash = TAKEN.find((taken) => (taken.mask & mask) !== 0);
  if (clash !== undefined) throw bad(`${value} has bits that ${clash.by} uses`);
  return mask;
}
