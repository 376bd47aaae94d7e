// What of this host's facts is not read but derived: who else answers, and what has to be announced again for it.
import { describe, expect, it } from "vitest";
import { parseFacts, printFacts } from "../../../agent/inputs/facts-text.ts";
import { createHostInput, type HostReaders } from "../../../agent/inputs/host.ts";
import { announcedToken } from "../../../agent/model/announced.ts";
import type { Domain, Rival } from "../../../agent/model/facts.ts";
import { address, bareHost, network } from "../make.ts";

const E4 = "10.10.10.50";
const E6 = "fd00:10:10::50";
const MAC = "02:00:00:00:00:04";
const rival: Rival = { address: E4, link: "eth1", mac: "02:00:00:00:00:99" };

function host() {
  let rivals: readonly Rival[] = [];
  let doubted: ReadonlySet<string> = new Set();
  const there = {
    ...network,
    addresses: [...network.addresses, address("eth1", `${E4}/32`), address("eth1", `${E6}/128`)],
  };
  const read: string[] = [];
  let failing: Error | undefined;
  const readers = {
    netlink: {
      read: async () => {
        read.push("network");
        if (failing !== undefined) throw failing;
        return { ...there };
      },
    },
    iptables: { save: async () => new Map() },
    ipset: { save: async () => new Map() },
    nft: { listTable: async () => undefined },
    readRecord: async () => ({
      addresses: [E4, E6].map((own) => ({ address: own, link: "eth1" })),
      sysctls: {},
    }),
    readNorthbound: async () => bareHost.northbound,
    rivals: {
      read: () => rivals,
      takeDoubted: () => {
        const taken = doubted;
        doubted = new Set();
        return taken;
      },
    },
  } as unknown as HostReaders;
  const input = createHostInput(readers);
  return {
    read,
    input,
    fail: (error: Error | undefined) => {
      failing = error;
    },
    facts: (...dirty: readonly Domain[]) => input.read(new Set(dirty)),
    hear: () => {
      rivals = [rival];
      doubted = new Set([`${E4} eth1`]);
    },
  };
}

describe("host facts", () => {
  it("say who else answers without reading anything, and that neighbours are to be told again, once", async () => {
    const { facts, hear, read } = host();
    const tokens = [E4, E6].map((own) => announcedToken(own, "eth1", MAC));
    const before = await facts();
    expect([before.rivals, before.announced]).toEqual([[], new Set(tokens)]);
    hear();
    const after = await facts("rivals");
    expect(after.rivals).toEqual([rival]);
    expect(after.announced).toEqual(new Set(tokens.slice(1)));
    expect(after.network).toBe(before.network);
    expect(read).toEqual(["network"]);
    const later = await facts("rivals");
    expect([later.rivals, later.announced]).toEqual([[rival], after.announced]);
  });

  it("are printed with who else answers, and read back", () => {
    const facts = { ...bareHost, rivals: [rival] };
    expect(parseFacts(printFacts(facts))).toEqual(facts);
    expect(printFacts(bareHost)).not.toContain("rivals");
    expect(parseFacts(printFacts(bareHost))).toEqual(bareHost);
  });

  it("take a reading that was begun, once", async () => {
    const { facts, input, read } = host();
    const before = await facts();
    input.begin(["network", "sysctls", "record"], before);
    expect(read).toEqual(["network", "network"]);
    const after = await facts("network");
    expect(read).toHaveLength(2);
    expect(after.network).not.toBe(before.network);
    await facts("network");
    expect(read).toHaveLength(3);
  });

  it("do not take one that something was told since, or that nobody asked for at the time", async () => {
    const { facts, input, read } = host();
    const before = await facts();
    input.begin(["network"], before);
    input.doubt(["nft"]);
    input.doubt(["network"]);
    await facts("network");
    expect(read).toHaveLength(3);
    input.begin(["network"], before);
    expect((await facts("nft")).network).toBe(input.known()?.network);
    await facts("network");
    expect(read).toHaveLength(5);
  });

  it("are not known when a reading that was begun failed, and that harms nobody who does not ask", async () => {
    const { facts, input, fail } = host();
    const before = await facts();
    fail(new Error("ip: no answer"));
    input.begin(["network"], before);
    await expect(facts("network")).rejects.toThrow("ip: no answer");
    input.begin(["network"], before);
    fail(undefined);
    await facts("nft");
    expect((await facts("network")).network.links).toEqual(before.network.links);
  });
});
