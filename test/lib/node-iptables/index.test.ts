// Which tool is run with which words, and what is made of its answer; over a Run that answers from a table.
import { describe, expect, it } from "vitest";
import { type Run, type RunOptions, ToolError } from "../../../lib/exec/index.ts";
import { createIpset, createIptables, detectBackend } from "../../../lib/node-iptables/index.ts";

interface Call {
  readonly command: string;
  readonly options: RunOptions | undefined;
}

/** Answers by command line; a number is an exit status. Notes every call. */
function answering(answers: Readonly<Record<string, string | number>>, calls: Call[] = []): Run {
  return async (tool, args, options) => {
    const command = [tool, ...args].join(" ");
    calls.push({ command, options });
    const answer = answers[command];
    if (answer === undefined) throw new Error(`not expected: ${command}`);
    const exitCode = typeof answer === "number" ? answer : 0;
    if (!(options?.okExitCodes ?? [0]).includes(exitCode))
      throw new ToolError(command, exitCode, "", `exit status ${exitCode}`);
    return { stdout: typeof answer === "string" ? answer : "", stderr: "", exitCode };
  };
}

const NONE = "*nat\n:POSTROUTING ACCEPT [0:0]\nCOMMIT\n";
const KUBE = "*nat\n:POSTROUTING ACCEPT [0:0]\n:KUBE-SERVICES - [0:0]\nCOMMIT\n";
const OURS = "*nat\n:POSTROUTING ACCEPT [0:0]\n:EGRESSIP-SNAT - [0:0]\nCOMMIT\n";
const HIDDEN = "# Table `nat' is incompatible, use 'nft' tool.\n";

describe("detectBackend", () => {
  it.each<[string, string | number, string | number, "nft" | "legacy", boolean]>([
    ["nothing anywhere", NONE, "", "nft", false],
    ["kube chains in nft", KUBE, "", "nft", false],
    ["kube chains in legacy", NONE, KUBE, "legacy", false],
    ["kube chains in both", KUBE, KUBE, "nft", true],
    ["chains of our own in nft, kube's in legacy", OURS, KUBE, "legacy", false],
    ["chains of our own in legacy", NONE, OURS, "nft", false],
    ["a table that nft hides, kube chains in legacy", HIDDEN, KUBE, "nft", true],
    ["no legacy tools", KUBE, 127, "nft", false],
    ["no nft tools", 127, KUBE, "legacy", false],
    ["no legacy support in the kernel", NONE, 1, "nft", false],
    ["legacy tools that fail otherwise", KUBE, 3, "nft", false],
  ])("%s", async (_, nft, legacy, backend, mixed) => {
    const run = answering({ "iptables-nft-save": nft, "iptables-legacy-save": legacy });
    expect(await detectBackend(run, (chain) => chain.startsWith("EGRESSIP-"))).toEqual({ backend, mixed });
  });
});

describe("createIptables", () => {
  it.each([
    ["nft", 4, "iptables-nft-save", "iptables-nft-restore --noflush"],
    ["nft", 6, "ip6tables-nft-save", "ip6tables-nft-restore --noflush"],
    ["legacy", 4, "iptables-legacy-save", "iptables-legacy-restore --noflush -w 5"],
    ["legacy", 6, "ip6tables-legacy-save", "ip6tables-legacy-restore --noflush -w 5"],
  ] as const)(
    "runs %s for IPv%i, never without --noflush, legacy with a bounded wait",
    async (backend, family, save, restore) => {
      const calls: Call[] = [];
      const iptables = createIptables(answering({ [save]: KUBE, [restore]: "" }, calls), backend);
      expect(
        [...((await iptables.save(family, () => false)).get("nat") ?? [])].map(([name]) => name),
      ).toEqual(["POSTROUTING", "KUBE-SERVICES"]);
      await iptables.restore(family, "*nat\nCOMMIT\n");
      expect(calls).toEqual([
        { command: save, options: undefined },
        { command: restore, options: { input: "*nat\nCOMMIT\n" } },
      ]);
    },
  );

  const listed = JSON.stringify({
    nftables: [
      { chain: { name: "OURS" } },
      { chain: { name: "POSTROUTING", hook: "postrouting", policy: "accept" } },
      { rule: { chain: "OURS", handle: 2, expr: [{ xt: {} }] } },
      { rule: { chain: "POSTROUTING", handle: 5, expr: [{ counter: {} }, { jump: { target: "OURS" } }] } },
      { rule: { chain: "POSTROUTING", handle: 6, expr: [{ mangle: {} }] } },
    ],
  });
  const exact = (table: string, chain: string) => table === "nat" && chain === "OURS";

  it("reads a hidden table through nft, and chains of ours by name", async () => {
    const own = "-N OURS\n-A OURS -o eth0 -j SNAT --to-source 172.18.0.50\n";
    const run = answering({
      "iptables-nft-save": `${HIDDEN}*filter\n:FORWARD ACCEPT [0:0]\nCOMMIT\n`,
      "nft --json list table ip nat": listed,
      "iptables-nft -t nat -S OURS": own,
    });
    const saved = await createIptables(run, "nft").save(4, exact);
    expect([...saved.keys()]).toEqual(["filter", "nat"]);
    expect(saved.get("nat")).toEqual(
      new Map([
        ["OURS", { policy: "-", rules: ["-o eth0 -j SNAT --to-source 172.18.0.50"] }],
        ["POSTROUTING", { policy: "ACCEPT", rules: ["-j OURS", "# nft rule 6"] }],
      ]),
    );
  });

  it("makes do with what nft tells of a chain of ours that is hidden too", async () => {
    const run = answering({
      "ip6tables-nft-save": HIDDEN,
      "nft --json list table ip6 nat": listed,
      "ip6tables-nft -t nat -S OURS": 1,
    });
    const saved = await createIptables(run, "nft").save(6, exact);
    expect(saved.get("nat")?.get("OURS")?.rules).toEqual(["# nft rule 2"]);
  });

  it("fails when a hidden table cannot be read at all: absent is not empty", async () => {
    const run = answering({ "iptables-nft-save": HIDDEN, "nft --json list table ip nat": 1 });
    await expect(createIptables(run, "nft").save(4, exact)).rejects.toThrow(ToolError);
  });
});

describe("createIpset", () => {
  it("restores with -exist and keeps the sets that are asked for", async () => {
    const calls: Call[] = [];
    const saved = "create a hash:ip family inet\ncreate b hash:ip family inet\n";
    const ipset = createIpset(answering({ "ipset save": saved, "ipset restore -exist": "" }, calls));
    expect([...(await ipset.save((name) => name === "b")).keys()]).toEqual(["b"]);
    await ipset.restore("add b 10.0.0.1\n");
    expect(calls.at(-1)).toEqual({ command: "ipset restore -exist", options: { input: "add b 10.0.0.1\n" } });
  });
});
