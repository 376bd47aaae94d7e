// The command line as it is typed: exit statuses, what is said on which stream, and `plan` over recorded facts. No root, no host.
import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { OPTIONS, variableOf } from "../../../agent/config.ts";
import { printFacts } from "../../../agent/inputs/facts-text.ts";
import { createBuild } from "../../../agent/model/build.ts";
import { createMode } from "../../../agent/plan/modes.ts";
import { createBackends } from "../../../agent/sync/backends.ts";
import { carryOut } from "../../../agent/sync/round.ts";
import { bareHost, egressIP, namespace, node1, objects, pod, settings } from "../make.ts";
import { recordingTools } from "../tools.ts";

const main = path.join(import.meta.dirname, "../../../agent/main.ts");

interface Ended {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

function agent(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Ended> {
  return new Promise((resolve) => {
    // Half of the time of each start is taking the types out again.
    const child = spawn(process.execPath, [main, ...args], {
      env: { ...env, NODE_COMPILE_CACHE: at("compiled") },
      stdio: ["ignore", "pipe", "pipe"],
    });
    let [stdout, stderr] = ["", ""];
    child.stdout.on("data", (chunk) => {
      stdout += String(chunk);
    });
    child.stderr.on("data", (chunk) => {
      stderr += String(chunk);
    });
    child.on("close", (status) => resolve({ status, stdout, stderr }));
  });
}

const MANIFESTS = `apiVersion: k8s.ovn.org/v1
kind: EgressIP
metadata: {name: web, uid: u1, creationTimestamp: "2026-01-01T00:00:00Z"}
spec: {egressIPs: [172.18.0.50], namespaceSelector: {}}
status: {items: [{node: node1, egressIP: 172.18.0.50}]}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop, uid: u2}
---
apiVersion: v1
kind: Node
metadata:
  name: node1
  uid: u3
  annotations:
    k8s.ovn.org/node-primary-ifaddr: '{"ipv4":"172.18.0.11/24","ipv6":"fd00:172:18::11/64"}'
    k8s.ovn.org/host-cidrs: '["172.18.0.11/24","10.10.10.11/24","fd00:172:18::11/64","fd00:10:10::11/64"]'
status: {addresses: [{type: InternalIP, address: 172.18.0.11}, {type: InternalIP, address: "fd00:172:18::11"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: shop, uid: u4}
spec: {nodeName: node1}
status: {phase: Running, podIPs: [{ip: 10.244.1.3}]}
`;

/** The host as it is once everything in MANIFESTS is done, by prediction. */
async function settledHost() {
  const all = objects(
    egressIP("web", { at: { "172.18.0.50": "node1" }, uid: "u1" }),
    namespace("shop"),
    node1,
    pod("shop/a", ["10.244.1.3"]),
  );
  let facts = bareHost;
  const [build, mode, backends] = [createBuild(), createMode("local"), createBackends(recordingTools())];
  for (let round = 0; round < 3; round++) {
    const plan = mode.plan(build(settings, all, facts));
    ({ facts } = await carryOut(backends, plan, facts, { write: true, held: () => false }));
  }
  return facts;
}

let directory = "";
const at = (...names: readonly string[]) => path.join(directory, ...names);

beforeAll(async () => {
  directory = await mkdtemp(path.join(tmpdir(), "egressip-cli-"));
  await Promise.all([
    writeFile(at("web.yaml"), MANIFESTS),
    writeFile(at("bare.facts"), printFacts(bareHost)),
    writeFile(at("settled.facts"), printFacts(await settledHost())),
    writeFile(at("broken.facts"), "{"),
    writeFile(at("old.facts"), '{"version":0}'),
    writeFile(at("half.facts"), '{"version":1,"network":{}}'),
    writeFile(
      at("config"),
      "node: node1\ngateway-mode: local\ncluster-networks: [10.244.0.0/16, 'fd00:10:244::/48']\n",
    ),
  ]);
});

afterAll(async () => {
  await rm(directory, { recursive: true });
});

const needed = () => [
  ...["--node", "node1", "--gateway-mode", "local", "--manifests", directory],
  ...[
    "--cluster-networks",
    "10.244.0.0/16,fd00:10:244::/48",
    "--service-networks",
    "10.96.0.0/16,fd00:10:96::/112",
  ],
  ...["--exempt-networks", "100.64.0.0/16"],
];
const plan = (facts: string, ...more: readonly string[]) =>
  agent(["plan", ...needed(), "--host-facts", at(facts), ...more]);

describe("wrong settings end with status 78 and a line that names them", () => {
  it.each<[string, readonly string[], RegExp]>([
    ["an unknown flag", ["plan", "--nodes", "x"], /unknown option '--nodes'/],
    ["an unknown command", ["explode"], /unknown command 'explode'/],
    ["no command", [], /Usage: egressip-agent/],
    ["a flag without its value", ["plan", "--node"], /option '--node <NAME>' argument missing/],
    ["a missing setting", ["plan"], /--node \(EGRESSIP_NODE\): is required/],
    [
      "a mask that others use",
      [
        "plan",
        "--node",
        "n",
        "--gateway-mode",
        "local",
        "--manifests",
        "/",
        "--cluster-networks",
        "10.0.0.0/8",
        "--service-networks",
        "10.0.0.0/8",
        "--mark-mask",
        "0x7c000",
      ],
      /--mark-mask \(EGRESSIP_MARK_MASK\): 0x7c000 has bits that kube-proxy/,
    ],
    [
      "a network that is none",
      ["run", "--node", "n", "--gateway-mode", "local", "--cluster-networks", "10.244.0.0"],
      /--cluster-networks \(EGRESSIP_CLUSTER_NETWORKS\): "10.244.0.0" is not a network/,
    ],
    ["an output that is none", ["plan", "-o", "xml"], /Allowed choices are text, json/],
    ["a word too many", ["plan", "now"], /too many arguments/],
    ["explain without anything to explain", ["explain"], /missing required argument 'POD\|IP'/],
    [
      "explain of what is no pod",
      ["explain", "web"],
      /POD: must be a pod as NAMESPACE\/NAME, or an address, not "web"/,
    ],
    ["explain of a kind without a name", ["explain", "pod"], /missing required argument 'NAMESPACE\/NAME'/],
    [
      "explain of an address that is none",
      ["explain", "ip", "10.1.2"],
      /ADDRESS: must be an IP address, not "10.1.2"/,
    ],
    [
      "explain of a packet without its end",
      ["explain", "packet", "--from", "shop/a"],
      /required option '--to <IP\[:PORT\]>' not specified/,
    ],
    [
      "explain of a protocol that has no ports",
      ["explain", "packet", "--from", "shop/a", "--to", "192.0.2.1", "--protocol", "icmp"],
      /--protocol: must be tcp or udp, not "icmp"/,
    ],
    [
      "explain of a port that is none",
      ["explain", "pod", "shop/a", "--to", "[2001:db8::1]:70000"],
      /--to: must be ADDRESS, ADDRESS:PORT or \[ADDRESS\]:PORT, not "\[2001:db8::1\]:70000"/,
    ],
    [
      "a state directory that is not absolute",
      ["uninstall", "--state-dir", "state"],
      /--state-dir \(EGRESSIP_STATE_DIR\): must be an absolute path/,
    ],
  ])("%s", async (_, args, why) => {
    const { status, stdout, stderr } = await agent(args);
    expect(stderr).toMatch(why);
    expect([status, stdout]).toEqual([78, ""]);
  });

  it("an unknown key in the configuration file, one that is not there, and a variable", async () => {
    await writeFile(at("unknown.config"), "node: node1\nmark_mask: 0x7ff00000\n");
    const [unknown, missing, variable] = await Promise.all([
      agent(["plan", "--config", at("unknown.config")]),
      agent(["plan", "--config", at("gone")]),
      agent(["plan", ...needed()], { EGRESSIP_LOG_LEVEL: "loud" }),
    ]);
    expect(unknown).toEqual({
      status: 78,
      stdout: "",
      stderr: `egressip-agent: --config ${at("unknown.config")}: unknown setting "mark_mask"\n`,
    });
    expect([missing.status, missing.stderr]).toEqual([78, expect.stringMatching(/--config .*gone: ENOENT/)]);
    expect([variable.status, variable.stderr]).toEqual([
      78,
      expect.stringMatching(/--log-level \(EGRESSIP_LOG_LEVEL\): must be trace or/),
    ]);
  });
});

describe("a flag beats a variable beats the file beats the default", () => {
  it.each<[string, readonly string[], Readonly<Record<string, string>>, string]>([
    ["the file alone", [], {}, "0x10000000/0x7ff00000"],
    ["a variable", [], { EGRESSIP_MARK_MASK: "0x1f000000" }, "0x8000000/0x1f000000"],
    [
      "a flag and a variable",
      ["--mark-mask", "0xf8000000"],
      { EGRESSIP_MARK_MASK: "0x1f000000" },
      "0x40000000/0xf8000000",
    ],
  ])("with %s", async (_, flags, env, mark) => {
    const rest = [
      "--manifests",
      directory,
      "--service-networks",
      "10.96.0.0/16",
      "--host-facts",
      at("bare.facts"),
    ];
    const { status, stdout } = await agent(["plan", "--config", at("config"), ...rest, ...flags], env);
    expect(status).toBe(2);
    expect(stdout).toContain(`-o eth0 -m mark --mark ${mark} -j SNAT --to-source 172.18.0.50`);
  });

  it("with the file named by a variable", async () => {
    const rest = [
      "--manifests",
      directory,
      "--service-networks",
      "10.96.0.0/16",
      "--host-facts",
      at("bare.facts"),
    ];
    expect((await agent(["plan", ...rest], { EGRESSIP_CONFIG: at("config") })).status).toBe(2);
  });
});

describe("plan over recorded facts", () => {
  it("ends with 2 and prints every step where there is something to do", async () => {
    const { status, stdout, stderr } = await plan("bare.facts");
    expect([status, stderr]).toEqual([2, ""]);
    const heads = stdout.split("\n").filter((line) => line.startsWith("== "));
    expect(heads).toContain("== establish iptables");
    expect(heads.indexOf("== establish iptables")).toBeLessThan(heads.indexOf("== establish addresses"));
    expect(stdout).toContain("ip address replace 172.18.0.50/32 dev eth0");
    expect(stdout).toMatch(/add egressip4 10\.244\.1\.3/);
  });

  it("ends with 0 where there is nothing to do", async () => {
    expect(await plan("settled.facts")).toEqual({ status: 0, stdout: "nothing to do\n", stderr: "" });
  });

  it("prints steps, problems and failures as JSON", async () => {
    const { status, stdout } = await plan("bare.facts", "-o", "json");
    expect(status).toBe(2);
    const value = JSON.parse(stdout) as {
      steps: { backend: string; phase: string; lines: string[] }[];
      problems: unknown[];
    };
    expect(Object.keys(value)).toEqual(["steps", "problems", "failures"]);
    expect(value.problems).toEqual([]);
    for (const step of value.steps) {
      expect(Object.keys(step)).toEqual(["backend", "phase", "lines"]);
      expect(step.phase).toMatch(/^(withdraw|establish|retire)$/);
      expect(step.lines).not.toEqual([]);
    }
    expect(JSON.parse((await plan("settled.facts", "-o", "json")).stdout)).toEqual({
      steps: [],
      problems: [],
      failures: [],
    });
  });

  it("prints the same text each time", async () => {
    const [first, second] = await Promise.all([plan("bare.facts"), plan("bare.facts")]);
    expect(second).toEqual(first);
  });

  it.each([
    ["gone.facts", /ENOENT.*gone\.facts/],
    ["broken.facts", /broken\.facts.*not JSON/],
    ["old.facts", /old\.facts.*version 1 expected, found 0/],
    ["half.facts", /half\.facts.*sysctls is missing/],
  ])("ends with 1 and says what is wrong with %s", async (facts, why) => {
    const { status, stdout, stderr } = await plan(facts);
    expect(stderr).toMatch(why);
    expect([status, stdout, stderr.trimEnd().split("\n").length]).toEqual([1, "", 1]);
  });

  it("ends with 1 where the manifests are not there: not there is not empty", async () => {
    const { status, stdout, stderr } = await plan("settled.facts", "--manifests", at("nowhere"));
    expect([status, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(/cannot read the folder .*nowhere/);
  });
});

const POOL = `
apiVersion: redhatcop.redhat.io/v1alpha1
kind: EgressIPAM
metadata: {name: workers}
spec:
  topologyLabel: node-role.kubernetes.io/worker
  nodeSelector: {matchLabels: {node-role.kubernetes.io/worker: ""}}
  cidrAssignments: [{labelValue: "", CIDR: 10.0.32.0/24, reservedIPs: [10.0.32.1]}]
---
apiVersion: v1
kind: Namespace
metadata: {name: shop, annotations: {egressip-ipam-operator.redhat-cop.io/egressipam: workers}}
---
apiVersion: v1
kind: Node
metadata:
  name: w1
  labels: {node-role.kubernetes.io/worker: "", k8s.ovn.org/egress-assignable: ""}
  annotations: {k8s.ovn.org/node-primary-ifaddr: '{"ipv4":"10.0.32.2/24"}'}
status: {conditions: [{type: Ready, status: "True"}]}
`;

describe("assign over a folder", () => {
  it("prints address, object and node, and ends with 2", async () => {
    const folder = await mkdtemp(at("assign-"));
    await writeFile(path.join(folder, "pool.yaml"), POOL);
    const { status, stdout, stderr } = await agent(["assign", "--manifests", folder]);
    expect([status, stderr]).toEqual([2, ""]);
    expect(stdout).toContain(
      "== Namespace/shop\negressip-ipam-operator.redhat-cop.io/egressips: 10.0.32.3\n",
    );
    expect(stdout).toContain(
      '{"op":"add","path":"/status","value":{"items":[{"node":"w1","egressIP":"10.0.32.3"}]}}',
    );
  });

  it("has nothing to do without objects, and does not go by half a file", async () => {
    const folder = await mkdtemp(at("assign-"));
    expect(await agent(["assign", "--manifests", folder])).toEqual({
      status: 0,
      stdout: "nothing to do\n",
      stderr: "",
    });
    await writeFile(path.join(folder, "pool.yaml"), POOL.slice(0, -12));
    const { status, stderr } = await agent(["assign", "--manifests", folder]);
    expect(status).toBe(1);
    expect(stderr).toContain("pool.yaml");
  });
});

describe("asking without an agent that runs", () => {
  it.each([
    ["status"],
    ["list"],
    ["changes"],
    ["explain", "shop/a"],
    ["explain", "pod", "shop/a", "--to", "192.0.2.1:80"],
    ["explain", "ip", "192.0.2.1"],
    ["explain", "packet", "--from", "192.0.2.1", "--to", "192.0.2.2"],
  ])("%s ends with 1 and says where it asked", async (...args) => {
    const socket = at("no.sock");
    const { status, stdout, stderr } = await agent([...args, "--debug-socket", socket]);
    expect([status, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(
      /no\.sock: connect ENOENT .*; is egressip-agent running, with this --debug-socket\?\n$/,
    );
  });

  it("takes the socket from the variable too", async () => {
    expect((await agent(["status"], { EGRESSIP_DEBUG_SOCKET: at("other.sock") })).stderr).toContain(
      "other.sock",
    );
  });
});

describe("help", () => {
  it.each(["run", "plan"])("of %s names every option with its variable and its default", async (command) => {
    const { status, stdout, stderr } = await agent([command, "--help"]);
    expect([status, stderr]).toEqual([0, ""]);
    const text = stdout.replace(/\s+/g, " ");
    for (const { flag, value, fallback: known, otherwise, help } of OPTIONS) {
      const fallback = known ?? otherwise;
      expect(text).toContain(`--${flag} <${value}>`);
      expect(text).toContain(
        `${help} (${variableOf(flag)}${fallback === undefined ? "" : `; default ${fallback}`})`,
      );
    }
    expect(text).toContain("--config <FILE>");
  });

  it("names every command", async () => {
    const { status, stdout } = await agent(["--help"]);
    expect(status).toBe(0);
    for (const command of ["run", "plan", "facts", "uninstall", "status", "list", "explain", "changes"])
      expect(stdout).toMatch(new RegExp(`^  ${command}\\b`, "m"));
  });

  it.each(["facts", "uninstall", "status", "list", "explain", "changes"])(
    "of %s names only what it uses",
    async (command) => {
      const { status, stdout } = await agent([command, "--help"]);
      expect(status).toBe(0);
      expect(stdout).not.toContain("--mark-mask");
      expect(stdout).toContain(["facts", "uninstall"].includes(command) ? "--state-dir" : "--debug-socket");
    },
  );

  it("is not a description of another program", async () => {
    const { name } = JSON.parse(await readFile(path.join(path.dirname(main), "../package.json"), "utf8")) as {
      name: string;
    };
    expect((await agent(["--help"])).stdout).toMatch(new RegExp(`^Usage: ${name} `));
  });
});
