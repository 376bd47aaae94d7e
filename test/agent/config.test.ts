// Settings: every wrong one is refused by flag and variable with what would be right; a flag beats the environment beats the file.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ConfigError, gather, OPTIONS, parseConfig, type Texts, variableOf } from "../../agent/config.ts";

const right: Texts = {
  node: "node1",
  "gateway-mode": "local",
  manifests: "manifests",
  "cluster-networks": "10.244.0.0/16,fd00:10:244::/48",
  "service-networks": "10.96.0.0/16",
};

const parsed = (texts: Texts) => parseConfig(gather({ ...right, ...texts }, {}));

function messageOf(act: () => unknown): string {
  try {
    act();
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    return (error as Error).message;
  }
  return "no error";
}

let directory = "";
beforeAll(() => {
  directory = mkdtempSync(path.join(tmpdir(), "egressip-config-"));
});
afterAll(() => {
  rmSync(directory, { recursive: true });
});

function file(text: string): string {
  const name = path.join(
    directory,
    `config-${Math.abs(text.length)}-${text.replace(/\W/g, "").slice(0, 20)}.yaml`,
  );
  writeFileSync(name, text);
  return name;
}

describe("parseConfig", () => {
  it("has a default for everything but what only the operator knows", () => {
    const { settings, ...rest } = parsed({});
    expect(settings.markMask).toBe(0x7ff00000);
    expect([
      settings.whenUnready,
      settings.existingConnections,
      settings.randomFully,
      settings.manageForwarding,
    ]).toEqual(["drop", "keep", false, false]);
    expect(settings.exemptNetworks.map(({ network }) => network)).toContain("100.64.0.0");
    expect(rest).toEqual({
      source: { kind: "manifests", directory: "manifests" },
      enabled: true,
      debugSocket: "/run/egressip-agent/debug.sock",
      stateDirectory: "/var/lib/egressip-agent",
      iptablesBackend: "auto",
      resyncSeconds: 60,
      logLevel: "info",
    });
  });

  it.each<[string, unknown]>([
    ["none", undefined],
    ["127.0.0.1:9409", { host: "127.0.0.1", port: 9409 }],
    ["0.0.0.0:1", { host: "0.0.0.0", port: 1 }],
    ["[::]:9409", { host: "::", port: 9409 }],
    ["[fd00:172:18::11]:65535", { host: "fd00:172:18::11", port: 65535 }],
  ])("serves metrics at %s", (text, address) => {
    expect(parsed({ "metrics-address": text }).metrics).toEqual(address);
  });

  it.each([
    "9409",
    ":9409",
    "localhost:9409",
    "::1:9409",
    "127.0.0.1:0",
    "127.0.0.1:65536",
    "1.2.3:9",
    "[127.0.0.1]:9409",
  ])("refuses to serve metrics at %s", (text) => {
    expect(messageOf(() => parsed({ "metrics-address": text }))).toBe(
      `--metrics-address (EGRESSIP_METRICS_ADDRESS): must be ADDRESS:PORT, such as 127.0.0.1:9409 or [::1]:9409, not ${JSON.stringify(text)}`,
    );
  });

  it.each<[string, Texts, unknown]>([
    ["the folder where one is given", {}, { kind: "manifests", directory: "manifests" }],
    [
      "the API server where none is",
      { manifests: "none" },
      { kind: "kubernetes", kubeconfig: undefined, server: undefined },
    ],
    [
      "the API server where that is said",
      { source: "kubernetes", kubeconfig: "/etc/k", "kubernetes-server": "https://10.0.0.1:6443" },
      { kind: "kubernetes", kubeconfig: "/etc/k", server: "https://10.0.0.1:6443" },
    ],
  ])("reads objects from %s", (_, texts, source) => {
    expect(parsed(texts).source).toEqual(source);
  });

  it("wants a folder for --source manifests", () => {
    expect(messageOf(() => parsed({ source: "manifests", manifests: "none" }))).toMatch(
      /--manifests .*must be a folder with --source manifests/,
    );
  });

  it.each<[string, string, RegExp]>([
    ["node", "", /is required/],
    ["node", "Node1", /must be a node name, not "Node1"/],
    ["node", "node1;reboot", /must be a node name/],
    ["node", "x".repeat(254), /must be a node name/],
    ["gateway-mode", "", /is required/],
    ["gateway-mode", "Local", /must be local or shared, not "Local"/],
    ["manifests", "", /is required/],
    ["source", "files", /must be kubernetes or manifests, not "files"/],
    ["kubeconfig", "config", /must be an absolute path/],
    ["kubernetes-server", "10.0.0.1:6443", /must be a URL such as https:\/\/10.0.0.1:6443/],
    ["kubernetes-server", "https://10.0.0.1/?a=b", /must be a URL/],
    ["enable-egress-ip", "no", /must be true or false/],
    ["cluster-networks", "", /is required/],
    ["cluster-networks", "10.244.0.0", /"10.244.0.0" is not a network such as 10.244.0.0\/16/],
    ["cluster-networks", "10.244.0.0/16,", /"" is not a network/],
    ["cluster-networks", "10.244.0.0/33", /is not a network/],
    ["cluster-networks", "0.0.0.0/0", /is not a network/],
    ["cluster-networks", "::/0", /is not a network/],
    ["cluster-networks", "10.244.0.0/16 10.96.0.0/16", /is not a network/],
    ["service-networks", "fd00::/129", /is not a network/],
    ["exempt-networks", "everything", /"everything" is not a network/],
    ["management-port", "ovn-k8s-mp0-is-too-long", /must be a link name/],
    ["management-port", "-j ACCEPT", /must be a link name/],
    ["management-port", "a b", /must be a link name/],
    ["mark-mask", "2146435072", /must be contiguous bits, at least five, such as 0x7ff00000/],
    ["mark-mask", "0x7ff0000000", /must be contiguous bits/],
    ["mark-mask", "0x4000", /must be contiguous bits/],
    ["mark-mask", "0xf0f00000", /must be contiguous bits/],
    ["mark-mask", "0x0", /must be contiguous bits/],
    ["mark-mask", "0x7c000", /0x7c000 has bits that kube-proxy \(0x4000 and 0x8000\) uses/],
    ["mark-mask", "0x1f00", /has bits that Cilium \(0xf00\) uses/],
    ["mark-mask", "0xf8", /has bits that OVN-Kubernetes/],
    ["mark-mask", "0x1f0000", /has bits that OVN-Kubernetes/],
    ["mark-mask", "0xffffffff", /has bits that kube-proxy/],
    ["when-unready", "accept", /must be drop or node-ip, not "accept"/],
    ["existing-connections", "yes", /must be keep or cut/],
    ["random-fully", "1", /must be true or false, not "1"/],
    ["manage-forwarding", "yes", /must be true or false/],
    ["iptables-backend", "iptables", /must be auto or nft or legacy/],
    ["resync-seconds", "0", /must be a whole number of seconds, not "0"/],
    ["resync-seconds", "1.5", /must be a whole number of seconds/],
    ["resync-seconds", "-1", /must be a whole number of seconds/],
    ["resync-seconds", "1e3", /must be a whole number of seconds/],
    ["resync-seconds", "10000000", /must be a whole number of seconds/],
    ["debug-socket", "debug.sock", /must be an absolute path, not "debug.sock"/],
    ["state-dir", "./state", /must be an absolute path/],
    ["health-port", "65536", /must be a port, or 0, not "65536"/],
    ["health-port", "grpc", /must be a port/],
    ["health-port", "", /is required/],
    ["health-certificate", "tls.crt", /must be an absolute path/],
    ["health-key", "tls.key", /must be an absolute path/],
    ["log-level", "verbose", /must be trace or debug or info or warn or error, not "verbose"/],
  ])("refuses --%s %j", (flag, value, why) => {
    const message = messageOf(() => parsed({ [flag]: value }));
    expect(message).toMatch(why);
    expect(message.startsWith(`--${flag} (${variableOf(flag)}): `)).toBe(true);
    expect(message).not.toContain("\n");
  });

  it.each(["0x7ff00000", "0xfff00000", "0x1f000000", "0xF8000000", "0x1f00000"])(
    "takes the mask %s",
    (mask) => {
      expect(parsed({ "mark-mask": mask }).settings.markMask).toBe(Number(mask));
    },
  );

  it("takes networks with blanks around their commas", () => {
    expect(
      parsed({ "service-networks": "10.96.0.0/16, fd00:10:96::/112" }).settings.serviceNetworks,
    ).toHaveLength(2);
  });

  it("answers for its health with its own certificate, else with the database's, else in plain text", () => {
    const port = { "health-port": "9107" };
    const own = { "health-certificate": "/h.crt", "health-key": "/h.key" };
    const ssl = {
      "ovn-nb": "ssl:172.18.0.2:6641",
      "ovn-nb-ca": "/ca.crt",
      "ovn-nb-certificate": "/n.crt",
      "ovn-nb-key": "/n.key",
    };
    const identity = (name: string) => ({ certificateFile: `/${name}.crt`, keyFile: `/${name}.key` });
    expect(parsed({ ...own, ...ssl }).health).toBeUndefined();
    expect(parsed(port).health).toEqual({ port: 9107 });
    expect(parsed({ ...port, "ovn-nb": "tcp:172.18.0.2:6641" }).health).toEqual({ port: 9107 });
    expect(parsed({ ...port, ...ssl }).health).toEqual({ port: 9107, identity: identity("n") });
    expect(parsed({ ...port, ...ssl, ...own }).health).toEqual({ port: 9107, identity: identity("h") });
    const half = (flag: keyof typeof own) => messageOf(() => parsed({ ...port, [flag]: own[flag] }));
    expect(half("health-certificate")).toMatch(/^--health-key .*is required/);
    expect(half("health-key")).toMatch(/^--health-certificate .*is required/);
  });

  it("checks every option there is", () => {
    for (const { flag } of OPTIONS) {
      const texts = gather({ ...right, [flag]: " \u0000 " }, {});
      if (flag !== "manifests") expect(messageOf(() => parseConfig(texts))).toContain(`--${flag} `);
    }
  });
});

describe("gather", () => {
  it("takes the flag before the variable before the file before the default", () => {
    const config = file("log-level: warn\nresync-seconds: 5\nwhen-unready: node-ip\n");
    const texts = gather(
      { config, "log-level": "error" },
      { EGRESSIP_LOG_LEVEL: "debug", EGRESSIP_RESYNC_SECONDS: "7" },
    );
    expect([
      texts["log-level"],
      texts["resync-seconds"],
      texts["when-unready"],
      texts["iptables-backend"],
    ]).toEqual(["error", "7", "node-ip", "auto"]);
    expect(gather({ config }, {})["log-level"]).toBe("warn");
    expect(gather({}, { EGRESSIP_CONFIG: config })["log-level"]).toBe("warn");
    expect(gather({}, {})["log-level"]).toBe("info");
  });

  it("reads one variable an option, and no other", () => {
    const environment = Object.fromEntries(OPTIONS.map(({ flag }) => [variableOf(flag), `of ${flag}`]));
    expect(gather({}, environment)).toEqual(
      Object.fromEntries(OPTIONS.map(({ flag }) => [flag, `of ${flag}`])),
    );
    expect(OPTIONS.map(({ flag }) => variableOf(flag))).toContain("EGRESSIP_GATEWAY_MODE");
  });

  it("takes lists in the file, and values as they are written there", () => {
    const config = file(
      "cluster-networks: [10.244.0.0/16, 'fd00::/48']\nmark-mask: 0x7ff00000\nrandom-fully: true\n",
    );
    const texts = gather({ config }, {});
    expect([texts["cluster-networks"], texts["mark-mask"], texts["random-fully"]]).toEqual([
      "10.244.0.0/16,fd00::/48",
      "0x7ff00000",
      "true",
    ]);
  });

  it.each(["", "# nothing\n", "---\n"])("takes %j for a file without settings", (text) => {
    expect(gather({ config: file(text) }, {})["log-level"]).toBe("info");
  });

  it.each<[string, string, RegExp]>([
    ["an unknown setting", "loglevel: warn\n", /unknown setting "loglevel"/],
    ["the file's own setting", "config: x\n", /unknown setting "config"/],
    ["a list", "- node\n", /must be a mapping of settings/],
    ["a text", "node1\n", /must be a mapping of settings/],
    ["a mapping where a text belongs", "node: {name: x}\n", /node must be a text or a list of texts/],
    [
      "a list of mappings",
      "cluster-networks: [{a: b}]\n",
      /cluster-networks must be a text or a list of texts/,
    ],
    ["no YAML", "node: [\n", /./],
    ["a setting twice", "node: a\nnode: b\n", /./],
  ])("refuses a file with %s, and names it", (_, text, why) => {
    const config = file(text);
    const message = messageOf(() => gather({ config }, {}));
    expect(message).toMatch(why);
    expect(message.startsWith(`--config ${config}: `)).toBe(true);
    expect(message).not.toContain("\n");
  });

  it("refuses a file that is not there", () => {
    expect(messageOf(() => gather({ config: path.join(directory, "gone.yaml") }, {}))).toMatch(
      /^--config .*gone\.yaml: ENOENT/,
    );
  });
});
