// Decoding: what kubectl prints becomes the model, and every wrong field becomes one Problem that names it.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { decode, expand } from "../../../agent/model/decode.ts";
import { byCodeUnit } from "../../../agent/model/names.ts";
import { keyOf, type Problem } from "../../../agent/model/objects.ts";

type Json = Record<string, unknown>;

const egressIP = () => ({
  apiVersion: "k8s.ovn.org/v1",
  kind: "EgressIP",
  metadata: {
    name: "prod",
    uid: "e-1",
    creationTimestamp: "2026-01-02T03:04:05Z",
    generation: 4,
    labels: { a: "b" },
  },
  spec: {
    egressIPs: ["172.18.0.50", "FD00:172:18:0::50"],
    namespaceSelector: { matchLabels: { env: "prod" } },
    podSelector: { matchExpressions: [{ key: "tier", operator: "Exists" }] },
  },
  status: {
    items: [
      { node: "node-2", egressIP: "fd00:172:18::50" },
      { node: "node-1", egressIP: "172.18.0.50" },
    ],
  },
});

const node = () => ({
  apiVersion: "v1",
  kind: "Node",
  metadata: {
    name: "node-1",
    uid: "n-1",
    annotations: {
      "k8s.ovn.org/host-cidrs": '["172.18.0.11/16","10.10.10.3/24","fd00:172:18::11/64"]',
      "k8s.ovn.org/node-primary-ifaddr": '{"ipv4":"172.18.0.11/16","ipv6":"fd00:172:18::11/64"}',
    } as Record<string, unknown>,
  },
  status: {
    addresses: [
      { type: "InternalIP", address: "fd00:172:18::11" },
      { type: "InternalIP", address: "172.18.0.11" },
      { type: "Hostname", address: "node-1" },
    ] as unknown[],
  },
});

const namespace = () => ({
  apiVersion: "v1",
  kind: "Namespace",
  metadata: {
    name: "web",
    uid: "ns-1",
    labels: { env: "prod", "kubernetes.io/metadata.name": "web" } as Json,
  },
  status: { phase: "Active" },
});

const pod = () => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: {
    name: "web-1",
    namespace: "web",
    uid: "p-1",
    labels: { app: "web" } as Json,
    annotations: {
      "k8s.ovn.org/pod-networks": '{"default":{"ip_addresses":["10.244.1.77/24","fd00:10:244:1::77/64"]}}',
    } as Record<string, unknown>,
  },
  spec: { nodeName: "node-1" } as Json,
  status: {
    phase: "Running",
    podIP: "10.244.1.9",
    podIPs: [{ ip: "fd00:10:244:1::9" }, { ip: "10.244.1.9" }],
  } as Json,
});

const valid = { EgressIP: egressIP, Node: node, Namespace: namespace, Pod: pod };

/** The object with one field set; a path like `spec.egressIPs.0`. */
function changed<T extends object>(make: () => T, path: string, value: unknown): T {
  const object = make();
  const keys = path.split("|");
  const last = keys.pop() ?? "";
  let at = object as Json;
  for (const key of keys) at = at[key] as Json;
  if (value === undefined) delete at[last];
  else at[last] = value;
  return object;
}

function objectOf(raw: unknown): Json {
  return { ...(decode(raw).object as unknown as Json) };
}

function problemsOf(raw: unknown): readonly string[] {
  return decode(raw).problems.map(({ object, path, text }: Problem) => `${object} | ${path} | ${text}`);
}

function isDeeplyFrozen(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return true;
  return Object.isFrozen(value) && Object.values(value).every(isDeeplyFrozen);
}

describe("what kubectl prints", () => {
  it("EgressIP", () => {
    expect(decode(egressIP())).toEqual({
      object: {
        kind: "EgressIP",
        name: "prod",
        uid: "e-1",
        created: "2026-01-02T03:04:05Z",
        requested: ["172.18.0.50", "fd00:172:18::50"],
        assignments: [
          { node: "node-1", address: "172.18.0.50", family: 4 },
          { node: "node-2", address: "fd00:172:18::50", family: 6 },
        ],
        namespaceSelector: [{ key: "env", operator: "In", values: ["prod"] }],
        podSelector: [{ key: "tier", operator: "Exists" }],
      },
      problems: [],
    });
  });

  it("Node", () => {
    const cidr = (address: string, network: string, length: number) => ({
      family: address.includes(":") ? 6 : 4,
      address,
      network,
      length,
    });
    expect(decode(node())).toEqual({
      object: {
        kind: "Node",
        name: "node-1",
        uid: "n-1",
        internalAddresses: ["172.18.0.11", "fd00:172:18::11"],
        secondaryEgressIPs: [],
        hostCidrs: [
          cidr("10.10.10.3", "10.10.10.0", 24),
          cidr("172.18.0.11", "172.18.0.0", 16),
          cidr("fd00:172:18::11", "fd00:172:18::", 64),
        ],
        primary: [cidr("172.18.0.11", "172.18.0.0", 16), cidr("fd00:172:18::11", "fd00:172:18::", 64)],
        zone: "global",
        transit: [],
        podSubnets: [],
        cloud: false,
        assignable: false,
        leaving: "",
      },
      problems: [],
    });
  });

  it("Namespace", () => {
    expect(decode(namespace())).toEqual({
      object: {
        kind: "Namespace",
        name: "web",
        uid: "ns-1",
        labels: { env: "prod", "kubernetes.io/metadata.name": "web" },
      },
      problems: [],
    });
  });

  it("Pod", () => {
    expect(decode(pod())).toEqual({
      object: {
        kind: "Pod",
        namespace: "web",
        name: "web-1",
        uid: "p-1",
        labels: { app: "web" },
        node: "node-1",
        hostNetwork: false,
        finished: false,
        running: true,
        addresses: ["10.244.1.9", "fd00:10:244:1::9"],
      },
      problems: [],
    });
  });

  it("as text, with everything kubectl adds around it", () => {
    const text = `apiVersion: k8s.ovn.org/v1
kind: EgressIP
metadata:
  annotations:
    k8s.ovn.org/egressip-mark: "50000"
  creationTimestamp: "2026-01-02T03:04:05Z"
  generation: 3
  name: prod
  resourceVersion: "51"
  uid: 0c9a8a2c-6f62-4f9e-9b0a-2b3d8f3b7a11
spec:
  egressIPs:
  - 172.18.0.50
  namespaceSelector:
    matchLabels:
      env: prod
status:
  items:
  - egressIP: 172.18.0.50
    node: node-1
`;
    const { object, problems } = decode(parse(text, { schema: "core" }));
    expect(problems).toEqual([]);
    expect(object).toMatchObject({ name: "prod", assignments: [{ node: "node-1" }], podSelector: [] });
    expect(object && keyOf(object)).toBe("EgressIP/prod");
  });

  it.each(Object.entries(valid))(
    "%s is frozen all the way down, and its input is left alone",
    (_kind, make) => {
      const raw = make();
      const before = structuredClone(raw);
      expect(isDeeplyFrozen(decode(raw))).toBe(true);
      expect(raw).toEqual(before);
    },
  );
});

describe("kinds", () => {
  it.each([
    { apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "x" } },
    { apiVersion: "v1", kind: "Service" },
    { apiVersion: "metrics.k8s.io/v1", kind: "Node", metadata: { name: "x" } },
    { apiVersion: "example.com/v1", kind: "AllowList" },
    { apiVersion: "v1", kind: "constructor" },
  ])("$apiVersion $kind is ignored", (raw) => {
    expect(decode(raw)).toEqual({ problems: [], ignored: true });
  });

  it.each([
    [undefined, "unknown |  | must be an object, not missing"],
    [null, "unknown |  | must be an object, not null"],
    ["x", 'unknown |  | must be an object, not "x"'],
    [[], "unknown |  | must be an object, not a list"],
    [{}, "unknown | kind | must be text, not missing"],
    [{ kind: 1 }, "unknown | kind | must be text, not the number 1"],
    [{ kind: "Pod" }, "unknown | apiVersion | must be text, not missing"],
    [
      { kind: "EgressIP", apiVersion: "k8s.ovn.org/v2" },
      'unknown | apiVersion | must be k8s.ovn.org/v1 for EgressIP, not "k8s.ovn.org/v2"',
    ],
    [
      { kind: "List", apiVersion: "v1", items: [] },
      "unknown | items | must be a list, and lists do not nest",
    ],
    [{ kind: "PodList", apiVersion: "v1" }, "unknown | items | must be a list, and lists do not nest"],
  ])("%j is a problem", (raw, problem) => {
    expect(problemsOf(raw)).toEqual([problem]);
    expect(decode(raw).object).toBeUndefined();
  });

  it("calls what has no name by its origin", () => {
    expect(decode({}, "file:a.yaml").problems[0]?.object).toBe("file:a.yaml");
  });
});

describe("expand", () => {
  it.each([
    [{ apiVersion: "v1", kind: "List", items: [{ kind: "Pod" }, 7] }, [{ kind: "Pod" }, 7]],
    [{ apiVersion: "v1", kind: "List", items: null }, []],
    [
      { apiVersion: "v1", kind: "PodList", items: [{ metadata: {} }, 7] },
      [{ apiVersion: "v1", kind: "Pod", metadata: {} }, 7],
    ],
    [
      {
        apiVersion: "k8s.ovn.org/v1",
        kind: "EgressIPList",
        items: [{ kind: "EgressIP", apiVersion: "k8s.ovn.org/v1" }],
      },
      [{ kind: "EgressIP", apiVersion: "k8s.ovn.org/v1" }],
    ],
  ])("%j", (raw, expected) => {
    expect(expand(raw)).toEqual(expected);
  });

  it.each([
    [undefined],
    [null],
    [[1]],
    ["x"],
    [{ kind: "Pod", items: [] }],
    [{ kind: "List", items: "x" }],
    [{ kind: "AllowList" }],
  ])("leaves %j as it is", (raw) => {
    expect(expand(raw)).toEqual([raw]);
  });

  it("gives items that decode", () => {
    const { apiVersion, kind, ...bare } = pod();
    const [item] = expand({ apiVersion, kind: `${kind}List`, items: [bare] });
    expect(decode(item)).toEqual(decode(pod()));
  });
});

describe("names", () => {
  const hostile = [
    "",
    "Upper",
    "-x",
    "x-",
    "a..b",
    "a_b",
    "a/b",
    "a b",
    'quo"te',
    "new\nline",
    "cr\rline",
    "$(reboot)",
    "`id`",
    "; rm -rf /",
    "../../etc",
    "%0a",
    "\u202Eevil",
    "line\u2028separator",
    "nul\0",
    "\u001b[31m",
    "\ud800",
    "é",
    "x\n",
    "a".repeat(254),
    "\u0007".repeat(300),
    null,
    undefined,
    7,
    {},
    [],
    true,
  ];
  const kinds = Object.entries(valid);

  it.each(hostile)("%j names nothing, and its problem is one short line", (name) => {
    for (const [kind, make] of kinds) {
      const { object, problems } = decode(changed<object>(make, "metadata|name", name));
      expect(object).toBeUndefined();
      expect(problems.map((problem) => problem.path)).toEqual(["metadata.name"]);
      expect(problems[0]?.text).toMatch(/^[\x20-\x7e]{1,140}$/);
      expect(problems[0]?.text).toContain(kind);
    }
    const inNamespace = decode(changed(pod, "metadata|namespace", name));
    expect(inNamespace.object).toBeUndefined();
    expect(inNamespace.problems.map((problem) => problem.path)).toEqual(["metadata.namespace"]);
    expect(inNamespace.problems[0]?.text).toMatch(/^[\x20-\x7e]{1,200}$/);
  });

  it("are good up to 253 characters, namespaces up to 63 and without dots", () => {
    const longest = `${"a".repeat(251)}.b`;
    for (const make of [egressIP, node, pod])
      expect(decode(changed<object>(make, "metadata|name", longest)).object).toHaveProperty("name", longest);
    expect(decode(changed(pod, "metadata|namespace", "n".repeat(63))).object).toBeDefined();
    expect(decode(changed(pod, "metadata|namespace", "n".repeat(64))).object).toBeUndefined();
    expect(decode(changed(pod, "metadata|namespace", "a.b")).object).toBeUndefined();
    expect(decode(changed(namespace, "metadata|name", "n".repeat(64))).object).toBeUndefined();
  });

  it("quotes at most 80 characters", () => {
    const { problems } = decode(changed(pod, "metadata|name", `"${"\\".repeat(300)}`));
    const quoted = problems[0]?.text.slice("Pod must have a DNS name, not ".length) ?? "";
    expect(quoted).toHaveLength(80);
    expect(quoted).toMatch(/^"\\"\\\\.*\.\.\.$/);
  });

  it.each([
    ["metadata", undefined, "unknown | metadata.name | Pod must have a DNS name, not missing"],
    ["metadata", "x", "unknown | metadata.name | Pod must have a DNS name, not missing"],
  ])("%s %j", (path, value, problem) => {
    expect(problemsOf(changed(pod, path, value))).toEqual([problem]);
  });

  it.each([
    ["metadata|uid", 5, "metadata.uid | must be short printable text, not the number 5", ""],
    ["metadata|uid", "a\nb", 'metadata.uid | must be short printable text, not "a\\nb"', ""],
    [
      "metadata|uid",
      "u".repeat(129),
      `metadata.uid | must be short printable text, not "${"u".repeat(76)}...`,
      "",
    ],
  ])("%s %j", (path, value, problem, uid) => {
    const raw = changed(egressIP, path, value);
    expect(problemsOf(raw)).toEqual([`EgressIP/prod | ${problem}`]);
    expect(objectOf(raw)["uid"]).toBe(uid);
  });
});

/** One field of a valid object set to a value: what is said, and what the object then holds. */
type Case = readonly [path: string, value: unknown, problems: readonly string[], holds: Json];

describe("EgressIP fields", () => {
  const both = ["172.18.0.50", "fd00:172:18::50"];
  const onlyFirst = [{ node: "node-1", address: "172.18.0.50", family: 4 }];
  const items = (...list: readonly unknown[]) => list;
  const good = { node: "node-1", egressIP: "172.18.0.50" };
  it.each<Case>([
    ["status", undefined, [], { requested: both, assignments: [] }],
    ["status", null, [], { assignments: [] }],
    ["status", {}, [], { assignments: [] }],
    ["status|items", null, [], { assignments: [] }],
    ["status", "x", ['status | must be an object, not "x"'], { requested: both, assignments: [] }],
    ["status|items", {}, ["status.items | must be a list, not an object"], { assignments: [] }],
    [
      "status|items",
      items(good, 7),
      [
        "status.items[1] | must be an object, not the number 7",
        "status.items[1].node | must be a node's name, not missing",
      ],
      { assignments: onlyFirst },
    ],
    [
      "status|items",
      items({ egressIP: "172.18.0.50" }, good),
      ["status.items[0].node | must be a node's name, not missing"],
      { assignments: onlyFirst },
    ],
    [
      "status|items",
      items({ node: "Bad Node", egressIP: "fd00:172:18::50" }, good),
      ['status.items[0].node | must be a node\'s name, not "Bad Node"'],
      { assignments: onlyFirst },
    ],
    [
      "status|items",
      items(good, { node: "node-2", egressIP: "fd00::" + "50/64" }),
      ['status.items[1].egressIP | must be an IP address, not "fd00::50/64"'],
      { assignments: onlyFirst },
    ],
    [
      "status|items",
      items(good, { node: "node-2" }),
      ["status.items[1].egressIP | must be an IP address, not missing"],
      { assignments: onlyFirst },
    ],
    [
      "status|items",
      items(good, { node: "node-2", egressIP: "172.18.0.51" }),
      ["status.items[1].egressIP | 172.18.0.51 is not in spec.egressIPs"],
      { assignments: onlyFirst },
    ],
    [
      "status|items",
      items(good, { node: "node-2", egressIP: "172.18.0.50" }),
      ["status.items[1].egressIP | 172.18.0.50 is already assigned to node-1"],
      { assignments: onlyFirst },
    ],
    [
      "spec|egressIPs",
      ["172.18.0.50", "172.18.0.500", "fd00:172:18::50"],
      ['spec.egressIPs[1] | must be an IP address, not "172.18.0.500"'],
      { requested: both },
    ],
    [
      "spec|egressIPs",
      ["fd00:172:18::50", "172.18.0.50", "FD00:172:18::0050"],
      ["spec.egressIPs[2] | fd00:172:18::50 is already in the list"],
      { requested: both },
    ],
    [
      "spec|egressIPs",
      ["fd00:172:18::50", "172.18.0.50", null],
      ["spec.egressIPs[2] | must be an IP address, not null"],
      { requested: both },
    ],
    [
      "spec|egressIPs",
      ["172.18.0.50"],
      ["status.items[0].egressIP | fd00:172:18::50 is not in spec.egressIPs"],
      { requested: ["172.18.0.50"], assignments: onlyFirst },
    ],
    ["spec|trafficSelector", null, [], { podSelector: expect.anything() }],
    ["spec|podSelector", undefined, [], { podSelector: [] }],
    ["spec|podSelector", null, [], { podSelector: [] }],
    ["spec|podSelector", {}, [], { podSelector: [] }],
    ["spec|namespaceSelector", {}, [], { namespaceSelector: [] }],
    ["metadata|creationTimestamp", null, [], { created: "" }],
    [
      "metadata|creationTimestamp",
      "yesterday",
      ['metadata.creationTimestamp | must be like 2026-01-02T03:04:05Z, not "yesterday"'],
      { created: "" },
    ],
    [
      "metadata|creationTimestamp",
      "2026-01-02T03:04:05+01:00",
      ['metadata.creationTimestamp | must be like 2026-01-02T03:04:05Z, not "2026-01-02T03:04:05+01:00"'],
      { created: "" },
    ],
    [
      "metadata|deletionTimestamp",
      "2026-01-02T03:04:05Z",
      [],
      { assignments: [...onlyFirst, { node: "node-2", address: "fd00:172:18::50", family: 6 }] },
    ],
    ["metadata|labels", 7, [], { requested: both }],
  ])("%s = %j", (path, value, problems, holds) => {
    const raw = changed(egressIP, path, value);
    expect(problemsOf(raw)).toEqual(problems.map((problem) => `EgressIP/prod | ${problem}`));
    expect(objectOf(raw)).toMatchObject(holds);
  });

  it("no list of addresses at all", () => {
    const raw = changed(egressIP, "spec|egressIPs", undefined);
    expect(problemsOf(raw)[0]).toBe("EgressIP/prod | spec.egressIPs | is missing");
    expect(objectOf(raw)).toMatchObject({ requested: [], assignments: [] });
  });

  it.each([
    [
      "spec|namespaceSelector",
      undefined,
      ["spec.namespaceSelector | is missing; {} would select every namespace"],
    ],
    [
      "spec|namespaceSelector",
      null,
      ["spec.namespaceSelector | is missing; {} would select every namespace"],
    ],
    ["spec|namespaceSelector", "x", ['spec.namespaceSelector | must be an object, not "x"']],
    [
      "spec|namespaceSelector",
      { matchExpressions: [{ key: "a", operator: "In", values: [] }] },
      ["spec.namespaceSelector.matchExpressions[0].values | must have at least one value with In"],
    ],
    [
      "spec|podSelector",
      { matchLabels: { a: 1 } },
      ['spec.podSelector.matchLabels["a"] | must be a label value, not the number 1'],
    ],
    [
      "spec|podSelector",
      { app: "web" },
      ['spec.podSelector | has the unknown field "app"; known are matchLabels, matchExpressions'],
    ],
    ...[{}, { matchLabels: { to: "internet" } }].map(
      (selector) =>
        [
          "spec|trafficSelector",
          selector,
          [
            "spec.trafficSelector | is not supported: this EgressIP is for some destinations only, and would be given for all; it is not served",
          ],
        ] as [string, unknown, string[]],
    ),
    ["spec", undefined, ["spec.namespaceSelector | is missing; {} would select every namespace"]],
    [
      "spec",
      [],
      [
        "spec | must be an object, not a list",
        "spec.namespaceSelector | is missing; {} would select every namespace",
      ],
    ],
  ])("%s = %j leaves no object", (path, value, problems) => {
    const raw = changed(egressIP, path, value);
    expect(problemsOf(raw)).toEqual(problems.map((problem) => `EgressIP/prod | ${problem}`));
    expect(decode(raw).object).toBeUndefined();
  });
});

describe("Node fields", () => {
  const hosts = "metadata|annotations|k8s.ovn.org/host-cidrs";
  const secondary = "metadata|annotations|k8s.ovn.org/secondary-host-egress-ips";
  const primary = "metadata|annotations|k8s.ovn.org/node-primary-ifaddr";
  const cloud = "metadata|annotations|cloud.network.openshift.io/egress-ipconfig";
  const at = (key: string, rest = "") => `metadata.annotations["${key}"]${rest}`;
  const hostsAt = (rest = "") => at("k8s.ovn.org/host-cidrs", rest);
  const secondaryAt = (rest = "") => at("k8s.ovn.org/secondary-host-egress-ips", rest);
  const primaryAt = (rest = "") => at("k8s.ovn.org/node-primary-ifaddr", rest);
  const cloudAt = (rest = "") => at("cloud.network.openshift.io/egress-ipconfig", rest);
  const v4 = { family: 4, address: "10.0.128.0", network: "10.0.128.0", length: 18 };
  const cloudText = (ifaddr: unknown) =>
    JSON.stringify([{ interface: "eni-1", ifaddr, capacity: { ipv4: 14 } }, { ifaddr: "ignored" }]);

  it("an address that the same node's annotation calls an egress IP is none of its own, its real ones always are (BL-43)", () => {
    const raw = node();
    raw.metadata.annotations["k8s.ovn.org/host-cidrs"] =
      '["172.18.0.11/16","10.10.10.3/24","10.10.10.50/32","fd00:172:18::11/64","fd00:10:10:0::50/128"]';
    raw.metadata.annotations["k8s.ovn.org/secondary-host-egress-ips"] =
      '["10.10.10.50","172.18.0.11","fd00:172:18::11","fd00:10:10::50"]';
    const { object, problems } = decode(raw);
    if (object?.kind !== "Node") throw new Error("no node");
    expect(problems).toEqual([]);
    expect(object.hostCidrs.map(({ address }) => address)).toEqual([
      "10.10.10.3",
      "172.18.0.11",
      "fd00:172:18::11",
    ]);
  });

  it.each<Case>([
    [hosts, undefined, [], { hostCidrs: [] }],
    [hosts, "[]", [], { hostCidrs: [] }],
    [hosts, "[", [`${hostsAt()} | must be JSON, not "["`], { hostCidrs: [] }],
    [hosts, "", [`${hostsAt()} | must be JSON, not ""`], { hostCidrs: [] }],
    [hosts, 7, [`${hostsAt()} | must be text, not the number 7`], { hostCidrs: [] }],
    [hosts, '{"a":1}', [`${hostsAt()} | must be a list, not an object`], { hostCidrs: [] }],
    [
      hosts,
      '["10.0.128.0/18","10.0.0.1","10.0.128.0/18",7]',
      [
        `${hostsAt("[1]")} | must be an address with a prefix length, not "10.0.0.1"`,
        `${hostsAt("[3]")} | must be an address with a prefix length, not the number 7`,
      ],
      { hostCidrs: [v4] },
    ],
    [secondary, undefined, [], { secondaryEgressIPs: [] }],
    [secondary, "[]", [], { secondaryEgressIPs: [] }],
    [
      secondary,
      '["fd00:10:10:0::50","10.10.10.100","10.10.10.50","10.10.10.50"]',
      [],
      { secondaryEgressIPs: ["10.10.10.50", "10.10.10.100", "fd00:10:10::50"] },
    ],
    [
      secondary,
      "10.10.10.50",
      [`${secondaryAt()} | must be JSON, not "10.10.10.50"`],
      { secondaryEgressIPs: [] },
    ],
    [
      secondary,
      '"10.10.10.50"',
      [`${secondaryAt()} | must be a list, not "10.10.10.50"`],
      { secondaryEgressIPs: [] },
    ],
    [secondary, '{"a":1}', [`${secondaryAt()} | must be a list, not an object`], { secondaryEgressIPs: [] }],
    [
      secondary,
      '["10.10.10.50/32","10.10.10.51",7]',
      [
        `${secondaryAt("[0]")} | must be an IP address, not "10.10.10.50/32"`,
        `${secondaryAt("[2]")} | must be an IP address, not the number 7`,
      ],
      { secondaryEgressIPs: ["10.10.10.51"] },
    ],
    [
      primary,
      undefined,
      [`${primaryAt()} | is missing; the node's primary network is not known`],
      { primary: [], cloud: false },
    ],
    [primary, "nonsense", [`${primaryAt()} | must be JSON, not "nonsense"`], { primary: [], cloud: false }],
    [primary, "null", [`${primaryAt()} | must be an object, not null`], { primary: [] }],
    [primary, "{}", [`${primaryAt()} | has neither an ipv4 nor an ipv6 address`], { primary: [] }],
    [primary, '{"ipv4":"10.0.128.0/18","ipv6":""}', [], { primary: [v4] }],
    [
      primary,
      '{"ipv4":"10.0.128.0/18","ipv6":"10.0.0.1/8"}',
      [`${primaryAt(".ipv6")} | must be an IPv6 address with a prefix length, not "10.0.0.1/8"`],
      { primary: [v4] },
    ],
    [
      primary,
      '{"ipv4":["10.0.128.0/18"]}',
      [`${primaryAt(".ipv4")} | must be an IPv4 address with a prefix length, not a list`],
      { primary: [] },
    ],
    [cloud, cloudText({ ipv4: "10.0.128.0/18" }), [], { primary: [v4], cloud: true }],
    [
      cloud,
      cloudText({ ipv4: "10.0.128.0" }),
      [`${cloudAt("[0].ifaddr.ipv4")} | must be an IPv4 address with a prefix length, not "10.0.128.0"`],
      { primary: [], cloud: true },
    ],
    [
      cloud,
      cloudText(undefined),
      [`${cloudAt("[0].ifaddr")} | has neither an ipv4 nor an ipv6 address`],
      { primary: [], cloud: true },
    ],
    [
      cloud,
      "[]",
      [`${cloudAt()} | names no interface; the node's primary network is not known`],
      { primary: [], cloud: true },
    ],
    [cloud, "{", [`${cloudAt()} | must be JSON, not "{"`], { primary: [], cloud: true }],
    [
      cloud,
      "null",
      [`${cloudAt()} | names no interface; the node's primary network is not known`],
      { primary: [], cloud: true },
    ],
    [
      primary,
      '{"ipv4":0}',
      [`${primaryAt(".ipv4")} | must be an IPv4 address with a prefix length, not the number 0`],
      { primary: [] },
    ],
    [
      cloud,
      "[1]",
      [
        `${cloudAt("[0]")} | must be an object, not the number 1`,
        `${cloudAt("[0].ifaddr")} | has neither an ipv4 nor an ipv6 address`,
      ],
      { primary: [], cloud: true },
    ],
    [
      "metadata|annotations",
      "x",
      [
        'metadata.annotations | must be an object, not "x"',
        `${primaryAt()} | is missing; the node's primary network is not known`,
      ],
      { hostCidrs: [], primary: [] },
    ],
    ["status", undefined, [], { internalAddresses: [] }],
    ["status", 1, ["status | must be an object, not the number 1"], { internalAddresses: [] }],
    ["status|addresses", "x", ['status.addresses | must be a list, not "x"'], { internalAddresses: [] }],
    [
      "status|addresses",
      [
        null,
        { type: "InternalIP", address: "172.18.0.11" },
        { type: "InternalIP", address: "node-1" },
        { type: "ExternalDNS", address: 7 },
      ],
      [
        "status.addresses[0] | must be an object, not null",
        "status.addresses[0].type | must be text, not missing",
        'status.addresses[2].address | must be an IP address, not "node-1"',
      ],
      { internalAddresses: ["172.18.0.11"] },
    ],
  ])("%s = %j", (path, value, problems, holds) => {
    const raw = changed(node, path, value);
    expect(problemsOf(raw).toSorted(byCodeUnit)).toEqual(
      problems.map((problem) => `Node/node-1 | ${problem}`).toSorted(byCodeUnit),
    );
    expect(objectOf(raw)).toMatchObject(holds);
  });

  it("without a cloud annotation needs the primary one, and says so when there are no annotations", () => {
    expect(problemsOf(changed(node, "metadata|annotations", undefined))).toEqual([
      `Node/node-1 | ${primaryAt()} | is missing; the node's primary network is not known`,
    ]);
  });
});

describe("Pod fields", () => {
  const annotation = "metadata|annotations|k8s.ovn.org/pod-networks";
  const networks = 'metadata.annotations["k8s.ovn.org/pod-networks"]';
  it.each<Case>([
    ["spec|nodeName", undefined, [], { node: "" }],
    ["spec|nodeName", "", [], { node: "" }],
    ["spec|nodeName", "Node 1", ['spec.nodeName | must be a node\'s name, not "Node 1"'], { node: "" }],
    ["spec|nodeName", 7, ["spec.nodeName | must be a node's name, not the number 7"], { node: "" }],
    ["spec|hostNetwork", true, [], { hostNetwork: true, addresses: [] }],
    ["spec|hostNetwork", false, [], { hostNetwork: false, addresses: ["10.244.1.9", "fd00:10:244:1::9"] }],
    [
      "spec|hostNetwork",
      "yes",
      ['spec.hostNetwork | must be true or false, not "yes"'],
      { hostNetwork: true, addresses: [] },
    ],
    ["spec", 7, ["spec | must be an object, not the number 7"], { node: "", hostNetwork: false }],
    ["status|phase", "Succeeded", [], { finished: true, addresses: [] }],
    ["status|phase", "Failed", [], { finished: true, addresses: [] }],
    ["status|phase", "Pending", [], { finished: false, addresses: ["10.244.1.9", "fd00:10:244:1::9"] }],
    ["status|phase", "Unknown", [], { finished: false }],
    ["status|phase", 1, ["status.phase | must be text, not the number 1"], { finished: false }],
    ["status", undefined, [], { finished: false, addresses: ["10.244.1.77", "fd00:10:244:1::77"] }],
    [
      "status",
      "x",
      ['status | must be an object, not "x"'],
      { addresses: ["10.244.1.77", "fd00:10:244:1::77"] },
    ],
    [
      "status|podIPs",
      [{ ip: "10.244.1.9" }, { ip: "10.244.1.10" }],
      ["status.podIPs[1].ip | is a second IPv4 address, 10.244.1.10; 10.244.1.9 is used"],
      { addresses: ["10.244.1.9"] },
    ],
    [
      "status|podIPs",
      [{ ip: "10.244.1" }, { ip: "10.244.1.10" }],
      ['status.podIPs[0].ip | must be an IP address, not "10.244.1"'],
      { addresses: ["10.244.1.10"] },
    ],
    [
      "status|podIPs",
      [7, {}],
      [
        "status.podIPs[0] | must be an object, not the number 7",
        "status.podIPs[0].ip | must be an IP address, not missing",
        "status.podIPs[1].ip | must be an IP address, not missing",
      ],
      { addresses: ["10.244.1.77", "fd00:10:244:1::77"] },
    ],
    [
      "status|podIPs",
      "x",
      ['status.podIPs | must be a list, not "x"'],
      { addresses: ["10.244.1.77", "fd00:10:244:1::77"] },
    ],
    [
      "metadata|labels|app",
      1,
      ['metadata.labels["app"] | must be a label value, not the number 1'],
      { labels: {} },
    ],
    [
      "metadata|labels|tier",
      null,
      ['metadata.labels["tier"] | must be a label value, not null'],
      { labels: { app: "web" } },
    ],
    [
      "metadata|labels|bad key",
      "x",
      ['metadata.labels["bad key"] | is not a valid label key'],
      { labels: { app: "web" } },
    ],
    [
      "metadata|labels|a\n\u2028",
      "x",
      ['metadata.labels["a\\n\\u2028"] | is not a valid label key'],
      { labels: { app: "web" } },
    ],
    [
      "metadata|labels",
      JSON.parse('{"__proto__":{"x":"y"},"constructor":"c"}'),
      ['metadata.labels["__proto__"] | is not a valid label key'],
      { labels: { constructor: "c" } as never },
    ],
    ["metadata|labels", [], ["metadata.labels | must be an object, not a list"], { labels: {} }],
    ["metadata|labels", null, [], { labels: {} }],
    [
      annotation,
      "not looked at while podIPs is there",
      [],
      { addresses: ["10.244.1.9", "fd00:10:244:1::9"] },
    ],
  ])("%s = %j", (path, value, problems, holds) => {
    const raw = changed(pod, path, value);
    expect(problemsOf(raw)).toEqual(problems.map((problem) => `Pod/web/web-1 | ${problem}`));
    expect(objectOf(raw)).toMatchObject(holds);
    if ("labels" in holds)
      expect(Object.keys(objectOf(raw)["labels"] as Json)).toEqual(Object.keys(holds["labels"] as Json));
  });

  it.each([
    [
      '{"default":{"ip_addresses":["10.244.1.77/24","fd00::77/64"],"ip_address":"10.244.1.78/24"}}',
      [],
      ["10.244.1.77", "fd00::77"],
    ],
    ['{"default":{"ip_address":"10.244.1.78/24"}}', [], ["10.244.1.78"]],
    ['{"default":{"ip_addresses":[],"ip_address":"10.244.1.78/24"}}', [], ["10.244.1.78"]],
    [
      '{"default":{"ip_addresses":["10.244.1.77"]}}',
      [`${networks}.default.ip_addresses[0] | must be an IP address, not "10.244.1.77"`],
      ["10.244.1.9"],
    ],
    ['{"web/other":{"ip_address":"10.9.9.9/24"}}', [], ["10.244.1.9"]],
    ['{"default":7}', [`${networks}.default | must be an object, not the number 7`], ["10.244.1.9"]],
    ["[]", [`${networks} | must be an object, not a list`], ["10.244.1.9"]],
    ["{", [`${networks} | must be JSON, not "{"`], ["10.244.1.9"]],
    [undefined, [], ["10.244.1.9"]],
  ])("with the annotation %j in place of podIPs", (text, problems, addresses) => {
    const raw = changed(() => changed(pod, "status|podIPs", []), annotation, text);
    expect(problemsOf(raw)).toEqual(problems.map((problem) => `Pod/web/web-1 | ${problem}`));
    expect(objectOf(raw)["addresses"]).toEqual(addresses);
  });

  it.each([
    [undefined, []],
    ["", []],
    ["10.244.1", ['status.podIP | must be an IP address, not "10.244.1"']],
  ])("with nothing but podIP %j", (podIP, problems) => {
    const raw = changed(
      () => changed(pod, "status", podIP === undefined ? {} : { podIP }),
      annotation,
      undefined,
    );
    expect(problemsOf(raw)).toEqual(problems.map((problem) => `Pod/web/web-1 | ${problem}`));
    expect(objectOf(raw)["addresses"]).toEqual([]);
  });
});

describe("anything at all", () => {
  const check = (raw: unknown) => {
    const decoded = decode(raw);
    expect(isDeeplyFrozen(decoded)).toBe(true);
    expect(decoded.object !== undefined || decoded.problems.length > 0 || decoded.ignored === true).toBe(
      true,
    );
    for (const { object, path, text } of decoded.problems)
      expect(`${object}${path}${text}`).toMatch(/^[\x20-\x7e]+$/);
    for (const item of expand(raw)) decode(item);
  };

  it("any JSON value is decoded without a throw", () => {
    fc.assert(fc.property(fc.jsonValue(), check));
  });

  it("any valid object with some of its values replaced by anything is decoded without a throw", () => {
    /** All paths into a value, leaves and inner ones. */
    const pathsOf = (value: unknown): (readonly string[])[] =>
      typeof value !== "object" || value === null
        ? []
        : Object.entries(value).flatMap(([key, inner]) => [
            [key],
            ...pathsOf(inner).map((rest) => [key, ...rest]),
          ]);
    const replacement = fc.oneof(
      fc.constantFrom(
        undefined,
        null,
        0,
        -1,
        Number.POSITIVE_INFINITY,
        true,
        "",
        [],
        {},
        "\n",
        "a".repeat(300),
        "10.0.0.1/24",
        "[",
        '{"default":[]}',
      ),
      fc.jsonValue(),
      fc.string({ unit: "binary" }),
      fc.bigInt(),
      fc.date(),
    );
    const mutated = fc.constantFrom<() => KubernetesLike>(egressIP, node, namespace, pod).chain((make) =>
      fc
        .array(fc.tuple(fc.constantFrom(...pathsOf(make())), replacement), { minLength: 1, maxLength: 4 })
        .map((mutations) => {
          const object: unknown = structuredClone(make());
          for (const [keys, value] of mutations) {
            let at: unknown = object;
            for (const key of keys.slice(0, -1))
              at = typeof at === "object" && at !== null ? (at as Json)[key] : undefined;
            if (typeof at === "object" && at !== null) (at as Json)[keys.at(-1) ?? ""] = value;
          }
          return object;
        }),
    );
    fc.assert(fc.property(mutated, check), { numRuns: 3_000 });
  });

  it("an object that holds itself is decoded without a throw", () => {
    const raw: Json = pod();
    raw["spec"] = raw;
    raw["metadata"] = { ...pod().metadata, labels: raw };
    expect(() => decode(raw)).not.toThrow();
  });
});

type KubernetesLike = { readonly kind: string };
