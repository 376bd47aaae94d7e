// What people get wrong, through the real command on a lab node: it is said which object and which field, and everybody else is served.
import { mkdir, mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Lab } from "../lab/lab.ts";
import { Home } from "../support/agent.ts";
import { canRunKernelTests } from "../support/privileged.ts";

const why = canRunKernelTests();
/** Nobody may ever make this file. */
const trap = path.join(tmpdir(), `egressip-trap-${process.pid}`);

interface Problem {
  readonly object: string;
  readonly path: string;
  readonly text: string;
}

const nodes = [1, 2].map((n) => ({
  apiVersion: "v1",
  kind: "Node",
  metadata: {
    name: `node${n}`,
    uid: `node${n}`,
    annotations: {
      "k8s.ovn.org/node-primary-ifaddr": `{"ipv4":"172.18.0.1${n}/24","ipv6":"fd00:172:18::1${n}/64"}`,
      "k8s.ovn.org/host-cidrs": JSON.stringify([
        ...[`172.18.0.1${n}/24`, `10.10.10.1${n}/24`],
        ...[`fd00:172:18::1${n}/64`, `fd00:10:10::1${n}/64`],
      ]),
    },
  },
  status: { addresses: [{ type: "InternalIP", address: `172.18.0.1${n}` }] },
}));

const shop = {
  apiVersion: "v1",
  kind: "Namespace",
  metadata: { name: "shop", uid: "shop", labels: { team: "shop" } },
};
const pod = (name: string, ips: readonly string[], of: object = {}) => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name, namespace: "shop", uid: `pod-${name.length}` },
  spec: { nodeName: "node1" },
  status: { phase: "Running", podIPs: ips.map((ip) => ({ ip })) },
  ...of,
});
const a1 = pod("a1", ["10.244.1.3", "fd00:10:244:1::3"]);

function egressIP(
  name: string,
  addresses: readonly string[],
  of: { readonly spec?: object; readonly meta?: object; readonly node?: string } = {},
) {
  return {
    apiVersion: "k8s.ovn.org/v1",
    kind: "EgressIP",
    metadata: { name, uid: `eip-${name.length}`, creationTimestamp: "2026-06-01T00:00:00Z", ...of.meta },
    spec: { egressIPs: addresses, namespaceSelector: { matchLabels: { team: "nobody" } }, ...of.spec },
    status: { items: addresses.map((egressIP_) => ({ node: of.node ?? "node1", egressIP: egressIP_ })) },
  };
}

const good = egressIP("good", ["10.10.10.50", "fd00:10:10::50"], {
  spec: { namespaceSelector: { matchLabels: { team: "shop" } } },
  meta: { creationTimestamp: "2026-01-01T00:00:00Z" },
});

/** What the parser cannot take for JSON's sake: each its own file, JSON being YAML. */
const text = (...objects: readonly unknown[]) => objects.map((of) => `${JSON.stringify(of)}\n`).join("---\n");

describe.skipIf(why !== undefined)(
  `bad input on a node${why === undefined ? "" : ` (skipped: ${why})`}`,
  () => {
    let lab: Lab;
    let home: Home;
    let root = "";
    let folders = 0;

    beforeAll(async () => {
      root = await mkdtemp(path.join(tmpdir(), "egressip-bad-"));
      lab = await Lab.up({ prefix: `ea${process.pid}b` });
      home = await Home.of(lab);
    });
    afterAll(async () => {
      await lab.down();
      await home.remove();
      await rm(root, { recursive: true });
    });

    async function folder(files: Readonly<Record<string, string>>): Promise<string> {
      const directory = path.join(root, String(folders++));
      await mkdir(directory);
      const all = { "good.yaml": text(...nodes, shop, a1, good), ...files };
      await Promise.all(Object.entries(all).map(([name, of]) => writeFile(path.join(directory, name), of)));
      return directory;
    }

    async function problemsOf(directory: string): Promise<readonly Problem[]> {
      const { stdout } = await home.plan(directory, { output: "json" });
      return (JSON.parse(stdout) as { problems: Problem[] }).problems;
    }

    const once = (directory: string) =>
      lab.nodeExec("node1", process.execPath, [...home.words("run", directory), "--once"]);

    /** Real packets of the good pod leave with the good egress IP, by both protocols and families. */
    async function expectGoodServed(): Promise<void> {
      expect(await lab.view(["a1"], ["sec"])).toEqual([
        "a1 sec tcp 4: sec saw 10.10.10.50",
        "a1 sec tcp 6: sec saw fd00:10:10::50",
        "a1 sec udp 4: sec saw 10.10.10.50",
        "a1 sec udp 6: sec saw fd00:10:10::50",
      ]);
    }

    const long = "a".repeat(254);
    const cases: readonly (readonly [
      string,
      { readonly bad: string },
      readonly (readonly [string, string, RegExp])[],
    ])[] = [
      [
        "YAML that ends too early",
        { bad: "apiVersion: v1\nkind: Pod\nmetadata: {name: [\n" },
        [["file:SELF.yaml", "", /line \d+: /]],
      ],
      ["YAML with tabs", { bad: "kind: Pod\n\tmetadata: x\n" }, [["file:SELF.yaml", "", /line \d+: /]]],
      [
        "a bomb of aliases",
        {
          bad: `a: &a [x,x,x,x,x,x,x,x,x]\n${["b", "c", "d", "e", "f", "g"].map((key, at) => `${key}: &${key} [${Array.from({ length: 9 }, () => `*${"abcdef"[at]}`).join(",")}]`).join("\n")}\n`,
        },
        [["file:SELF.yaml", "", /alias/i]],
      ],
      ["nesting without end", { bad: `${"[".repeat(20_000)}\n` }, [["file:SELF.yaml", "", /./]]],
      ["bytes that are no text", { bad: "\u0000\u0001\ufffd: [" }, [["file:SELF.yaml", "", /./]]],
      [
        "a list where an object belongs",
        { bad: text({ ...egressIP("SELF", ["10.10.10.60"]), spec: [] }) },
        [["EgressIP/SELF", "spec", /must be an object, not a list/]],
      ],
      [
        "a text where a list belongs",
        { bad: text(egressIP("SELF", ["10.10.10.60"], { spec: { egressIPs: "10.10.10.60" } })) },
        [["EgressIP/SELF", "spec.egressIPs", /must be a list, not "10.10.10.60"/]],
      ],
      [
        "a number for an address",
        { bad: text(egressIP("SELF", ["10.10.10.60"], { spec: { egressIPs: [5] } })) },
        [["EgressIP/SELF", "spec.egressIPs[0]", /must be an IP address, not the number 5/]],
      ],
      [
        "an address with a mask",
        { bad: text(egressIP("SELF", ["10.10.10.60/24"])) },
        [["EgressIP/SELF", "spec.egressIPs[0]", /must be an IP address, not "10.10.10.60\/24"/]],
      ],
      [
        "no namespace selector",
        { bad: text(egressIP("SELF", ["10.10.10.60"], { spec: { namespaceSelector: null } })) },
        [["EgressIP/SELF", "spec.namespaceSelector", /is missing/]],
      ],
      [
        "a selector's operator that is none",
        {
          bad: text(
            egressIP("SELF", ["10.10.10.60"], {
              spec: { namespaceSelector: { matchExpressions: [{ key: "a", operator: "Is" }] } },
            }),
          ),
        },
        [
          [
            "EgressIP/SELF",
            "spec.namespaceSelector.matchExpressions[0].operator",
            /must be In, NotIn, Exists or DoesNotExist/,
          ],
        ],
      ],
      [
        "In without values",
        {
          bad: text(
            egressIP("SELF", ["10.10.10.60"], {
              spec: { podSelector: { matchExpressions: [{ key: "a", operator: "In", values: [] }] } },
            }),
          ),
        },
        [["EgressIP/SELF", "spec.podSelector.matchExpressions[0].values", /at least one value/]],
      ],
      [
        "a time that is none",
        { bad: text(egressIP("SELF", ["10.10.10.60"], { meta: { creationTimestamp: "yesterday" } })) },
        [["EgressIP/SELF", "metadata.creationTimestamp", /must be like 2026-/]],
      ],
      [
        "the same address twice in one object",
        { bad: text(egressIP("SELF", ["fd00:10:10::60", "fd00:10:10:0::0060"])) },
        [["EgressIP/SELF", "spec.egressIPs[1]", /fd00:10:10::60 is already in the list/]],
      ],
      [
        "the same address in two objects",
        { bad: text(egressIP("SELF", ["10.10.10.50"])) },
        [["EgressIP/SELF", "status.items", /10.10.10.50: already given by EgressIP good, which is older/]],
      ],
      [
        "this node's own address",
        { bad: text(egressIP("SELF", ["172.18.0.11", "10.10.10.60"])) },
        [["EgressIP/SELF", "status.items", /172.18.0.11: is an address of (node node1|this host)/]],
      ],
      [
        "another node's second address, in another spelling",
        { bad: text(egressIP("SELF", ["FD00:10:10:0:0::12"])) },
        [["EgressIP/SELF", "status.items", /fd00:10:10::12: is an address of node node2/]],
      ],
      [
        "an address of no network here",
        { bad: text(egressIP("SELF", ["192.0.2.60"])) },
        [["EgressIP/SELF", "status.items", /192.0.2.60: no link of this node/]],
      ],
      [
        "an IPv4 address in IPv6's clothes",
        { bad: text(egressIP("SELF", ["::ffff:10.10.10.60"])) },
        [["EgressIP/SELF", "spec.egressIPs[0]", /must be an IP address/]],
      ],
      [
        "a status that names what was not asked for",
        {
          bad: text({
            ...egressIP("SELF", ["10.10.10.60"]),
            status: { items: [{ node: "node1", egressIP: "10.10.10.61" }] },
          }),
        },
        [["EgressIP/SELF", "status.items[0].egressIP", /10.10.10.61 is not in spec.egressIPs/]],
      ],
      [
        "another version",
        { bad: text({ ...egressIP("SELF", ["10.10.10.60"]), apiVersion: "k8s.ovn.org/v2" }) },
        [["file:SELF.yaml", "apiVersion", /must be k8s.ovn.org\/v1 for EgressIP/]],
      ],
      [
        "the same object twice",
        { bad: text(good) },
        [["EgressIP/good", "", /is in "SELF.yaml" line 1, which is used, and again in "good.yaml"/]],
      ],
      [
        "two pods with one address",
        { bad: text(pod("SELF", ["10.244.1.3"])) },
        [["Pod/shop/SELF", "status.podIPs", /10.244.1.3 is also the address of pod shop\/a1, which counts/]],
      ],
      [
        "a pod whose host network nobody can tell",
        { bad: text(pod("SELF", ["10.244.1.4"], { spec: { nodeName: "node1", hostNetwork: "maybe" } })) },
        [["Pod/shop/SELF", "spec.hostNetwork", /must be true or false/]],
      ],
      [
        "a pod with two addresses of one family",
        { bad: text(pod("SELF", ["10.244.1.4", "10.244.1.5"])) },
        [["Pod/shop/SELF", "status.podIPs[1].ip", /is a second IPv4 address/]],
      ],
      [
        "a node without annotations (BL-18)",
        { bad: text({ apiVersion: "v1", kind: "Node", metadata: { name: "SELF", uid: "SELF" } }) },
        [["Node/SELF", 'metadata.annotations["k8s.ovn.org/node-primary-ifaddr"]', /is missing/]],
      ],
      [
        "an annotation that is no JSON (BL-18)",
        {
          bad: text({
            apiVersion: "v1",
            kind: "Node",
            metadata: {
              name: "SELF",
              uid: "SELF",
              annotations: {
                "k8s.ovn.org/node-primary-ifaddr": '{"ipv4":"172.18.0.13/24"}',
                "k8s.ovn.org/host-cidrs": "{",
              },
            },
          }),
        },
        [["Node/SELF", 'metadata.annotations["k8s.ovn.org/host-cidrs"]', /must be JSON/]],
      ],
      [
        "a name longer than 253",
        { bad: text(egressIP(long, ["10.10.10.60"])) },
        [["file:SELF.yaml", "metadata.name", /EgressIP must have a DNS name, not "a{70,}/]],
      ],
      ...[
        `$(touch ${trap})`,
        "'; iptables -F #",
        'a"b',
        "a\nb",
        "a b",
        "-j ACCEPT",
        "../../etc",
        "Ä",
        "\u202etxt",
      ].map(
        (name) =>
          [
            `the name ${JSON.stringify(name)}`,
            { bad: text(egressIP(name, ["10.10.10.60"]), pod(name, ["10.244.1.4"])) },
            [
              ["file:SELF.yaml", "metadata.name", /EgressIP must have a DNS name/],
              ["file:SELF.yaml", "metadata.name", /Pod must have a DNS name/],
            ],
          ] as const,
      ),
    ];

    /** Each case is a file of its own in one folder, and SELF is the name of its objects. */
    const named = cases.map(([what, { bad }, expected], n) => {
      const self = `c${String(n).padStart(2, "0")}`;
      const mean = (of: string) => of.replaceAll("SELF", self);
      return {
        what,
        file: { [`${self}.yaml`]: mean(bad) },
        expected: expected.map(
          ([object, at, of]) => [mean(object), at, new RegExp(mean(of.source), of.flags)] as const,
        ),
      };
    });
    let everything = "";
    let problems: readonly Problem[] = [];
    beforeAll(async () => {
      everything = await folder(
        Object.assign({}, ...named.map(({ file }) => file)) as Record<string, string>,
      );
      problems = await problemsOf(everything);
    });

    it.each(named)("names $what, by object and field", ({ expected }) => {
      for (const [object, at, of] of expected) {
        const found = problems.filter((problem) => problem.object === object && problem.path === at);
        expect(found.map((problem) => problem.text).join("\n"), `${object} ${at}`).toMatch(of);
      }
    });

    it("says everything on one line of plain characters", () => {
      for (const problem of problems)
        expect(`${problem.object} ${problem.path}: ${problem.text}`).toMatch(/^[\x20-\x7e]+$/);
    });

    it("serves everybody else meanwhile, comes to rest, and does nothing that a name asks for", async () => {
      await once(everything);
      await expectGoodServed();
      expect((await home.plan(everything)).stdout).toMatch(/\n\nnothing to do\n$/);
      await expect(stat(trap)).rejects.toThrow("ENOENT");
    });

    it("takes names of the longest kind that Kubernetes allows", async () => {
      const name = "a".repeat(253);
      const directory = await folder({
        "long.yaml": text(egressIP(name, ["10.10.10.60"]), pod(name, ["10.244.1.4"])),
      });
      expect(await problemsOf(directory)).toEqual([]);
      await once(directory);
      await expectGoodServed();
    });

    it("does nothing at all for a folder that is not there, and leaves what is served", async () => {
      const result = await lab.nodeExec(
        "node1",
        process.execPath,
        [...home.words("run", path.join(root, "nowhere")), "--once"],
        { okExitCodes: [1] },
      );
      expect(result.stdout + result.stderr).toMatch(/cannot read the folder/);
      await expectGoodServed();
    });

    it("finds the one that is wrong among 10 000, and serves the 39 others of this node", async () => {
      const many = Array.from({ length: 10_000 }, (_, n) =>
        n < 40
          ? egressIP(`e${n}`, [n === 17 ? "172.18.0.12" : `172.18.0.${50 + n}`])
          : egressIP(`e${n}`, [`198.18.${n >> 8}.${n & 255}`], { node: "node2" }),
      );
      const directory = await folder({
        "many.json": JSON.stringify({ apiVersion: "v1", kind: "List", items: many }),
      });
      const problems = await problemsOf(directory);
      expect(problems.map(({ object, text: of }) => `${object}: ${of}`)).toEqual([
        "EgressIP/e17: 172.18.0.12: is an address of node node2; an egress IP must be an unused address",
      ]);
      await once(directory);
      await expectGoodServed();
      const { stdout } = await lab.nodeExec("node1", "ip", [
        "-oneline",
        "-4",
        "address",
        "show",
        "dev",
        "eth0",
      ]);
      expect(stdout.match(/172\.18\.0\.[5-8]\d\/32/g)).toHaveLength(39);
      const rules = (await lab.nodeExec("node1", "iptables-nft", ["-t", "nat", "-S"])).stdout;
      expect(rules.match(/--to-source 172\.18/g)).toHaveLength(39);
      expect((await home.plan(directory)).stdout).toMatch(/\nnothing to do\n$/);
    });
  },
);
