// What `explain packet` says of a running agent's host is what servers saw: in every scenario, for each packet that it expects and for
// every pod of the lab, and on a host that somebody has damaged while the agent cannot put it right. A pod that is told no reason has its
// egress IP, and one that is told a reason has not.
import { mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it, test } from "vitest";
import type { Explanation } from "../../agent/telemetry/explain/account.ts";
import { Lab } from "../lab/lab.ts";
import { destinationOf } from "../lab/probe.ts";
import { type Family, families, podNames, pods } from "../lab/topology.ts";
import { type Agent, Home } from "../support/agent.ts";
import { canMakeLinks, canRunKernelTests } from "../support/privileged.ts";
import { type RefusingTools, refusingTools } from "../support/refusing-tools.ts";
import { flagsOf, loadScenarios, type Manifests, type Scenario } from "../support/scenario.ts";
import { type Expectation, type Expected, shownPacket } from "../support/scenario-packets.ts";
import { serverBehind } from "../support/scenario-run.ts";

type Asked = Pick<Expectation, "pod" | "to" | "protocol" | "family">;

/** Probes that come to nothing are known late: this is how long an answer is waited for that must not come. */
const silenceMs = 400;

async function explained(agent: Agent, { pod, to, protocol, family }: Asked): Promise<Explanation> {
  const destination = destinationOf(to);
  const at = family === 4 ? destination[4] : `[${destination[6]}]`;
  return agent.explain({
    kind: "packet",
    from: pods[pod][family],
    to: `${at}:${destination.port}`,
    protocol,
  });
}

/** The verdict in the words of packets.yaml. `seen` is what tells who is behind a link that leads to several. */
function predicted({ accounts: [account] }: Explanation, seen: Expected, family: Family): Expected {
  if (account === undefined) throw new Error("it says nothing");
  const { outcome, link, source, destination } = account.verdict;
  if (outcome === "held back") return "dropped";
  if ((outcome === "leaves" || outcome === "stays") && link !== undefined && source !== undefined)
    return { server: serverBehind({ link, destination: destination ?? "" }, seen, family), source };
  throw new Error(`${account.about}: ${outcome}: ${account.verdict.why}`);
}

interface Compared {
  readonly asked: Asked;
  readonly packet: string;
  readonly seen: Expected;
  readonly said: Expected;
  readonly text: Explanation;
}

/** Asks for each packet first, then sends it. */
async function compare(lab: Lab, agent: Agent, packets: readonly Asked[], waitMs: number) {
  const answers = await Promise.all(packets.map((packet) => explained(agent, packet)));
  const outcomes = await Promise.all(
    packets.map(({ pod, to, protocol, family }) => lab.probe(pod, to, protocol, family, waitMs)),
  );
  return packets.map((packet, at): Compared => {
    const outcome = outcomes[at];
    const seen = outcome === undefined || "failed" in outcome ? "dropped" : outcome;
    const text = answers[at] as Explanation;
    const said = predicted(text, seen, packet.family);
    return { asked: packet, packet: shownPacket(packet as Expectation), seen, said, text };
  });
}

const differing = (compared: readonly Compared[]) =>
  compared.filter(({ seen, said }) => JSON.stringify(seen) !== JSON.stringify(said));

const fromEverybody = podNames.flatMap((pod) =>
  families.map((family) => ({ pod, to: "internet", protocol: "tcp", family }) as const),
);

const stranger = "no pod has this address";

/** Of packets to the internet, which is exempt nowhere: a known pod has a reason, or it has an egress IP. */
const contradicting = (compared: readonly Compared[]) =>
  compared.filter(({ said, text: { whyNot, accounts } }) => {
    const { steps = [], verdict } = accounts[0] ?? {};
    const isGiven = said !== "dropped" && verdict?.egressIP !== undefined;
    const isRefused = whyNot.length > 0 || steps[0]?.found === stranger;
    return isGiven === isRefused;
  });

/** Without those whose next hop was not known, as it was said, and is not when it has been asked. */
async function unforeseen(agent: Agent, compared: readonly Compared[]): Promise<readonly Compared[]> {
  const again = await Promise.all(
    compared.map(async ({ asked, seen, text }) => {
      const wasUnknown = text.accounts[0]?.steps.at(-1)?.found === "not known";
      if (seen !== "dropped" || !wasUnknown) return false;
      const last = (await explained(agent, asked)).accounts[0]?.steps.at(-1);
      return last?.step === "neighbour" && /^(INCOMPLETE|FAILED)$/.test(last.found);
    }),
  );
  return compared.filter((_, at) => !again[at]);
}

/** A folder of manifests whose content changes at once. */
async function tell(folder: string, manifests: Manifests): Promise<void> {
  const file = path.join(folder, "all.json");
  const list = { apiVersion: "v1", kind: "List", items: [...manifests.values()] };
  await writeFile(`${file}.new`, JSON.stringify(list));
  await rename(`${file}.new`, file);
}

const reason = canRunKernelTests();
const skipped = reason === undefined ? "" : ` (not here: ${reason})`;
const missing = ({ needs }: Scenario) => (needs === undefined ? undefined : canMakeLinks(needs));
const scenarios = loadScenarios();

describe.skipIf(reason !== undefined)(`explain says what servers see${skipped}`, () => {
  test.skip.each(scenarios.filter(missing).map((of) => ({ ...of, why: missing(of) })))(
    "$name (not here: $why)",
    () => undefined,
  );

  test.each(scenarios.filter((of) => !missing(of)))("$name", async (scenario) => {
    await using lab = await Lab.up({ prefix: `exp${process.pid}` });
    if (scenario.hostScript !== undefined) await lab.nodeExec("node1", "sh", ["-c", scenario.hostScript]);
    const home = await Home.of(lab);
    const folder = await mkdtemp(path.join(tmpdir(), "explain-"));
    try {
      let agent: Agent | undefined;
      const { manifests: _, ...flags } = flagsOf(scenario, "local");
      for (const { name, manifests, packets } of scenario.steps) {
        await tell(folder, manifests);
        if (agent === undefined) agent = await home.start(folder, flags as Readonly<Record<string, string>>);
        else await agent.lookAgain();
        await lab.nodeExec("node1", "conntrack", ["-F"]);
        const steered = podNames.filter((pod) => pods[pod].node !== "node1");
        await Promise.all(steered.map((pod) => lab.steer(pod, "node1")));
        const dropped = packets.filter(({ expect: { local } }) => local === "dropped");
        const answered = packets.filter(({ expect: { local } }) => local !== "dropped");
        const compared = [
          ...(await compare(lab, agent, answered, 2_000)),
          ...(await compare(lab, agent, dropped, silenceMs)),
        ];
        // Also those that nothing selects, or whose egress IP nobody gives.
        const everybody = await compare(lab, agent, fromEverybody, silenceMs);
        await Promise.all(steered.map((pod) => lab.unsteer(pod)));
        expect(await unforeseen(agent, differing(everybody)), name).toEqual([]);
        expect(contradicting(everybody), name).toEqual([]);
        expect(differing(compared), name).toEqual([]);
        expect(compared.length, name).toBe(packets.length);
      }
    } finally {
      await home.remove();
      await rm(folder, { recursive: true });
    }
  });
});

const toInternet = { kind: "packet", from: pods.a1[4], to: "198.51.100.80:8080" };

/** What somebody does to node1, as a shell has it: MARK, TABLE and POD are those of a1 and its egress IP. */
const damages: readonly (readonly [name: string, script: string, at: string])[] = [
  ["nothing", "true", "leaves"],
  ["a1's entry is taken out of the set: it leaves as the node", "ipset del egressip4 $POD", "leaves"],
  [
    "another pod has a1's entry",
    "ipset del egressip4 $POD; ipset add egressip4 10.244.1.99 skbmark $MARK",
    "leaves",
  ],
  ["a1's entry has no mark", "ipset del egressip4 $POD; ipset add egressip4 $POD", "guard"],
  [
    "a1's entry has a mark that is nobody's",
    "ipset del egressip4 $POD; ipset add egressip4 $POD skbmark 0x7ff00000/0x7ff00000",
    "guard",
  ],
  [
    "all destinations are exempt",
    "ipset add egressip-exempt4 0.0.0.0/1; ipset add egressip-exempt4 128.0.0.0/1",
    "leaves",
  ],
  ["the link's table is flushed", "ip route flush table $TABLE", "guard"],
  [
    "the link's table has the blackhole alone",
    "ip route del default table $TABLE; ip route del 10.10.10.0/24 table $TABLE",
    "route",
  ],
  ["the rule to the table is gone", "while ip rule del pref 6000; do :; done", "guard"],
  [
    "the rule and the guard are gone",
    "while ip rule del pref 6000; do :; done; iptables-nft -F EGRESSIP-GUARD",
    "leak-guard",
  ],
  ["a rule of somebody else comes first", "ip rule add pref 100 from $POD lookup main", "guard"],
  ["a rule of somebody else drops it", "ip rule add pref 100 from $POD blackhole", "rule"],
  ["a rule of somebody else is for others", "ip rule add pref 100 to 203.0.113.0/24 lookup main", "leaves"],
  ["no SNAT rule is left", "iptables-nft -t nat -F EGRESSIP-SNAT", "leak-guard"],
  [
    "no SNAT rule and no leak guard are left",
    "iptables-nft -t nat -F EGRESSIP-SNAT; nft delete table inet egressip",
    "leaves",
  ],
  [
    "SNAT is to another address",
    "iptables-nft -t nat -I POSTROUTING -s $POD -j SNAT --to-source 10.10.10.11",
    "leak-guard",
  ],
  ["nothing is marked", "iptables-nft -t mangle -F EGRESSIP-MARK", "guard"],
  [
    "nothing is marked and no guard is left",
    "iptables-nft -t mangle -F EGRESSIP-MARK; iptables-nft -F EGRESSIP-GUARD",
    "leaves",
  ],
  ["somebody drops it in FORWARD", "iptables-nft -I FORWARD -s $POD -j DROP", "chain"],
  ["somebody rejects it by its port", "iptables-nft -I FORWARD -p tcp --dport 8080 -j REJECT", "chain"],
  ["somebody drops what goes to another port", "iptables-nft -I FORWARD -p tcp --dport 81 -j DROP", "leaves"],
  ["nothing that pods send is forwarded", "sysctl -qw net.ipv4.conf.ovn-k8s-mp0.forwarding=0", "forwarding"],
  ["the link is down", "ip link set eth1 down", "route"],
  ["IPv6 is not forwarded", "sysctl -qw net.ipv6.conf.all.forwarding=0", "leaves"],
];

describe.skipIf(reason !== undefined)(`explain says what is, not what should be${skipped}`, () => {
  let folder: string;
  let tools: RefusingTools;
  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), "explain-tools-"));
    tools = await refusingTools(folder);
  });
  afterAll(() => rm(folder, { recursive: true }));

  /** node1 with prod's egress IP, an agent that can write nothing any more, and this done to it. */
  async function damaged(script: string, check: (lab: Lab, agent: Agent) => Promise<void>): Promise<void> {
    await using lab = await Lab.up({ prefix: `exd${process.pid}` });
    const home = await Home.of(lab);
    const manifests = await mkdtemp(path.join(tmpdir(), "explain-"));
    try {
      const scenario = scenarios.find(({ name }) => name === "moved-and-back");
      await tell(manifests, scenario?.steps[0]?.manifests ?? new Map());
      await tools.refuse(false);
      const agent = await home.spawn(manifests, {}, { PATH: tools.PATH });
      await agent.ready();
      const { accounts } = await agent.explain(toInternet);
      const steps = accounts[0]?.steps ?? [];
      const of = (step: string) => steps.find((one) => one.step === step);
      const [, mark = ""] = /skbmark (\S+)/.exec(of("set")?.found ?? "") ?? [];
      const table = of("route")?.object.replace("table ", "") ?? "";
      await tools.refuse(true);
      await lab.nodeExec("node1", "sh", ["-c", `POD=${pods.a1[4]}; MARK=${mark}; TABLE=${table}; ${script}`]);
      await lab.nodeExec("node1", "conntrack", ["-F"]);
      const asDamaged = await lab.dump("node1");
      await check(lab, agent);
      // Or it would have been another host by the time that the packets were sent.
      expect(await lab.dump("node1")).toBe(asDamaged);
    } finally {
      await home.remove();
      await rm(manifests, { recursive: true });
    }
  }

  it.each(damages)("%s", async (_, script, at) => {
    await damaged(script, async (lab, agent) => {
      const packets = (["tcp", "udp"] as const).flatMap((protocol) =>
        families.map((family) => ({ pod: "a1", to: "internet", protocol, family }) as const),
      );
      const compared = await compare(lab, agent, packets, silenceMs);
      expect(differing(compared)).toEqual([]);
      const { outcome, at: step } = compared[0]?.text.accounts[0]?.verdict ?? {};
      expect(step ?? outcome).toBe(at);
    });
  });

  it("nothing of netfilter is left: it leaves with its own address, which nobody can answer", async () => {
    const script =
      "for table in mangle nat filter; do iptables-nft -t $table -F; done; nft delete table inet egressip";
    await damaged(script, async (lab, agent) => {
      const { accounts } = await agent.explain(toInternet);
      expect(accounts[0]?.verdict).toMatchObject({ outcome: "leaves", link: "eth0", source: pods.a1[4] });
      const seen = await lab.capture("ext", "any", `src host ${pods.a1[4]}`);
      await lab.probe("a1", "internet", "udp", 4, silenceMs);
      expect((await seen.stop()).length).toBeGreaterThan(0);
    });
  });

  it("the egress IP is not on its link: it leaves with it, and what that means for replies is said", async () => {
    await damaged("ip address del 10.10.10.50/32 dev eth1", async (lab, agent) => {
      const { accounts } = await agent.explain(toInternet);
      const { verdict, steps } = accounts[0] ?? {};
      expect(verdict).toMatchObject({
        outcome: "leaves",
        at: "address",
        link: "eth1",
        source: "10.10.10.50",
      });
      expect(verdict?.remedy).toMatch(/egressip-agent plan/);
      expect(steps?.find(({ step }) => step === "address")?.found).toBe("not there");
      // Neighbours still know it here, and conntrack needs no address.
      expect(await lab.probe("a1", "internet", "tcp", 4)).toEqual({ server: "sec", source: "10.10.10.50" });
    });
  });

  it("a next hop that did not answer is said not to have, and asked again", async () => {
    await damaged("ip neigh replace 10.10.10.1 dev eth1 nud failed", async (lab, agent) => {
      const unsure = { outcome: "unknown", at: "neighbour", link: "eth1", source: "10.10.10.50" };
      expect((await agent.explain(toInternet)).accounts[0]?.verdict).toMatchObject(unsure);
      expect(await lab.probe("a1", "internet", "tcp", 4)).toEqual({ server: "sec", source: "10.10.10.50" });
      const after = await agent.explain(toInternet);
      expect(after.accounts[0]?.verdict).toMatchObject({ outcome: "leaves" });
      expect(after.accounts[0]?.steps.at(-1)?.found).toMatch(/^[0-9a-f:]{17} [A-Z]+$/);
    });
  });

  it("what the agent cannot put right is said, and chains that nobody here judges", async () => {
    const chain = "{ type filter hook forward priority 0; }";
    const script = `nft add table inet other; nft add chain inet other f '${chain}'; ipset del egressip4 $POD`;
    await damaged(script, async (_, agent) => {
      agent.signal("SIGHUP");
      await agent.when(({ failures }) => failures.length > 0, "a write that is refused");
      const { notes } = await agent.explain(toInternet);
      expect(notes).toContainEqual(expect.stringMatching(/^sets failed in the last round: /));
      expect(notes).toContain("not looked at, and on the way too: nft inet other f (forward)");
    });
  });
});
