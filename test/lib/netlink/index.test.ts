// Batches and listings: which words go to `ip`, and what becomes of a line it refuses. Over a Run that answers from a table.
import { describe, expect, it } from "vitest";
import type { follow, Run } from "../../../lib/exec/index.ts";
import { BatchError, createNetlink, monitorNetwork } from "../../../lib/netlink/index.ts";
import { ADDRESSES, ROUTES, RULES, VRFS } from "./recorded.ts";

/** Notes what it is given and answers with the text for the command line, or with this exit status and complaint. */
function recording(
  calls: string[],
  answers: Readonly<Record<string, string>> = {},
  failing: Readonly<Record<string, string>> = {},
): Run {
  return async (command, args, options) => {
    const line = [command, ...args].join(" ");
    calls.push(options?.input === undefined ? line : `${line} < ${options.input}`);
    const stderr = failing[line];
    return { stdout: answers[line] ?? "", stderr: stderr ?? "", exitCode: stderr === undefined ? 0 : 1 };
  };
}

describe("read", () => {
  const local = '[{"priority":0,"src":"all","table":"local"}]';
  const vrfs = "ip -json -details link show type vrf";
  const reading = async (answers: Readonly<Record<string, string>>) => {
    const calls: string[] = [];
    const usual = {
      "ip -json address show": ADDRESSES,
      "ip -json -Numeric -details route show table all": ROUTES,
      "ip -4 -json -Numeric rule show": local,
      "ip -6 -json -Numeric rule show": local,
    };
    return { calls, state: await createNetlink(recording(calls, { ...usual, ...answers })).read() };
  };

  it("asks four times and keeps the families apart", async () => {
    const withoutVrf = RULES.replace(/^.*l3mdev.*\n/m, "");
    const { calls, state } = await reading({ "ip -4 -json -Numeric rule show": withoutVrf });
    expect(calls).toHaveLength(4);
    expect(state.rules.filter(({ family }) => family === 6)).toHaveLength(1);
    expect(state.rules.filter(({ family }) => family === 4)).toHaveLength(21);
    expect(state.links).toHaveLength(4);
    expect(state.routes).not.toHaveLength(0);
  });

  it.each([
    ["there is the rule that comes with the first one", { "ip -6 -json -Numeric rule show": RULES }],
    [
      "a link with an address has a master",
      { "ip -json address show": ADDRESSES.replace('"ifname":"eth0",', '"ifname":"eth0","master":"b0",') },
    ],
  ])("asks for VRFs when %s", async (_, answers) => {
    const { calls, state } = await reading({ ...answers, [vrfs]: VRFS });
    expect(calls).toHaveLength(5);
    expect(calls.at(-1)).toBe(vrfs);
    // peer1 is enslaved in the recorded listing; b0 is no bridge here.
    expect(state.links.find(({ name }) => name === "peer1")).toMatchObject({ master: "b0", vrf: "10" });
    expect(state.links.find(({ name }) => name === "eth1")).not.toHaveProperty("vrf");
  });
});

describe("batch", () => {
  const lines = ["address add 172.18.0.50/32 dev eth0", "-6 rule add pref 6000", "rule add pref 6000"];

  it("runs nothing for nothing", async () => {
    const calls: string[] = [];
    await createNetlink(recording(calls)).batch([]);
    expect(calls).toEqual([]);
  });

  it("gives lines for IPv6 a batch of their own, after the others, without the -6", async () => {
    const calls: string[] = [];
    await createNetlink(recording(calls)).batch(lines);
    expect(calls).toEqual([
      "ip -force -batch - < address add 172.18.0.50/32 dev eth0\nrule add pref 6000\n",
      "ip -6 -force -batch - < rule add pref 6000\n",
    ]);
  });

  const failing = async (complaints: Readonly<Record<string, string>>) => {
    const calls: string[] = [];
    const error: unknown = await createNetlink(recording(calls, {}, complaints))
      .batch(lines)
      .catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(BatchError);
    return { error: error as BatchError, calls };
  };

  it("names the lines that were refused, of both families, after it tried them all", async () => {
    const { error, calls } = await failing({
      "ip -force -batch -":
        'Cannot find device "eth0"\nCommand failed -:1\nRTNETLINK answers: File exists\nCommand failed -:2\n',
      "ip -6 -force -batch -": "RTNETLINK answers: Operation not permitted\nCommand failed -:1\n",
    });
    expect(calls).toHaveLength(2);
    expect(error.failed).toEqual([
      { line: lines[0], why: 'Cannot find device "eth0"' },
      { line: lines[2], why: "RTNETLINK answers: File exists" },
      { line: "rule add pref 6000", why: "RTNETLINK answers: Operation not permitted" },
    ]);
    expect(error.message).toBe(
      'ip address add 172.18.0.50/32 dev eth0: Cannot find device "eth0"; ip rule add pref 6000: RTNETLINK answers: File exists; ip rule add pref 6000: RTNETLINK answers: Operation not permitted',
    );
  });

  it("joins a complaint of several lines", async () => {
    const { error } = await failing({
      "ip -force -batch -": "Error: argument is wrong.\nUsage: ip x\nCommand failed -:2\n",
    });
    expect(error.failed).toEqual([{ line: lines[2], why: "Error: argument is wrong. Usage: ip x" }]);
  });

  it("carries the lines out one by one when one of them ended the batch unnamed", async () => {
    const given = ["rule add pref 1", "address add x dev eth0", "rule del pref 2", "rule add pref 3"];
    const answers: Readonly<Record<string, readonly [number, string]>> = {
      [`ip -force -batch - < ${given.join("\n")}\n`]: [
        1,
        'Error: any valid prefix is expected rather than "x".\n',
      ],
      "ip -batch - < rule add pref 1\n": [2, "RTNETLINK answers: File exists\nCommand failed -:1\n"],
      "ip -batch - < address add x dev eth0\n": [1, 'Error: any valid prefix is expected rather than "x".\n'],
      "ip -batch - < rule del pref 2\n": [
        2,
        "RTNETLINK answers: No such file or directory\nCommand failed -:1\n",
      ],
      "ip -batch - < rule add pref 3\n": [
        2,
        "RTNETLINK answers: Operation not permitted\nCommand failed -:1\n",
      ],
    };
    const run: Run = async (command, args, options) => {
      const [exitCode, stderr] = answers[`${[command, ...args].join(" ")} < ${options?.input}`] ?? [
        99,
        "not expected",
      ];
      return { stdout: "", stderr, exitCode };
    };
    const error: unknown = await createNetlink(run)
      .batch(given)
      .catch((reason: unknown) => reason);
    expect((error as BatchError).failed).toEqual([
      { line: given[1], why: 'Error: any valid prefix is expected rather than "x".' },
      { line: given[3], why: "RTNETLINK answers: Operation not permitted" },
    ]);
  });
});

describe("monitorNetwork", () => {
  it("takes each line as no more than a reason to look", () => {
    let given: Parameters<typeof follow> | undefined;
    let changes = 0;
    const ends: string[] = [];
    let closed = 0;
    const start: typeof follow = (...args) => {
      given = args;
      return { pid: 1, write: () => {}, close: () => closed++ };
    };
    const monitor = monitorNetwork(start, { change: () => changes++, end: (why) => ends.push(why) });
    expect(given?.slice(0, 2)).toEqual(["ip", ["-oneline", "monitor", "link", "address", "route", "rule"]]);
    given?.[2].line("garbage");
    given?.[2].line("");
    given?.[2].end("killed");
    monitor.close();
    expect([changes, ends, closed]).toEqual([2, ["killed"], 1]);
  });
});
