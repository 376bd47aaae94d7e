// Egress IPs of another NIC, through OVN and that NIC: in each combination of gateway mode and databases, with every reverse path
// filter, both families and protocols, pods on the egress node and elsewhere; and large transfers over a way whose middle is narrow.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Family, families, outside } from "../lab/topology.ts";
import { setSysctls } from "../lab/up.ts";
import { addBeyond, beyond, middleMtu, transfer } from "../ovn-lab/beyond.ts";
import { lines, named, noLab, podOf } from "../ovn-lab/expected.ts";
import type { OvnUpOptions } from "../ovn-lab/lab.ts";
import { OvnStage } from "../support/ovn-stage.ts";

const egress = { 4: "10.10.10.50", 6: "fd00:10:10::50" };
/** One on the node that has the egress IP, one on the other. */
const selected = ["a1", "b1"] as const;
const filters = [0, 1, 2] as const;

const configs: readonly (OvnUpOptions & { readonly name: string })[] = [
  { name: "shared gateway, interconnect", gateway: "shared", interconnect: true },
  { name: "shared gateway, central", gateway: "shared", interconnect: false },
  { name: "local gateway, interconnect", gateway: "local", interconnect: true },
  { name: "local gateway, central", gateway: "local", interconnect: false },
];

/** Of all nodes, where both links' own values and everybody's count: the higher one. */
async function filterReversePaths({ lab }: OvnStage, value: (typeof filters)[number]): Promise<void> {
  for (const node of lab.nodes)
    await setSysctls(
      lab.namespace(node),
      ["all", "default", "br-ex", "eth1"].map((link) => [`net.ipv4.conf.${link}.rp_filter`, value]),
    );
}

/** Whom nobody selects, everywhere; and selected pods inside the cluster. All of them get answers. */
async function others({ lab }: OvnStage): Promise<readonly string[]> {
  const views = await Promise.all([
    lab.view(["a2", "a3", ...lab.nodes], ["a4", "b2", "ext", "internet"]),
    lab.view([...selected, "a2"], ["a4", "b2", "node1", "node2"]),
  ]);
  return views.flat();
}

const why = noLab();

describe.skipIf(why !== undefined).each(configs)(named("$name", why), ({ name: _, ...config }) => {
  let stage: OvnStage;
  const before = new Map<number, readonly string[]>();

  beforeAll(async () => {
    stage = await OvnStage.up({ ...config, prefix: `sec${process.pid}` });
    await addBeyond(stage.lab, egress);
    for (const value of filters) {
      await filterReversePaths(stage, value);
      before.set(value, await others(stage));
    }
    await stage.start();
    await stage.assign({ prod: { addresses: [egress[4], egress[6]], app: "web" } });
  });
  afterAll(() => stage?.down());

  it.each(filters)(
    "is what servers see by the right NIC, and nobody else's source, with rp_filter %i",
    async (value) => {
      await filterReversePaths(stage, value);
      await Promise.all([...stage.agents.values()].map((agent) => agent.lookAgain()));
      const leaks = await stage.lab.watchLeaks();
      expect(await stage.lab.view(selected, ["sec", "internet"])).toEqual(
        selected.flatMap((pod) => [
          ...lines(pod, "sec", "sec", egress),
          ...lines(pod, "internet", "sec", egress),
        ]),
      );
      const seen = await others(stage);
      expect(seen).toEqual(before.get(value));
      // The comparison would also hold where nothing works.
      expect(seen.filter((line) => !line.includes(" saw "))).toEqual([]);
      expect(await leaks.stop()).toEqual([]);
    },
  );

  it.each(selected)("large transfers of %s find out how narrow their way is", async (pod) => {
    const errors = await stage.lab.captureFrames(pod, "eth0", "icmp[0] == 3 or ip6[40] == 2");
    for (const family of families)
      expect(await transfer(stage.lab, pod, family, 1_000_000)).toBe(
        `1000000 there and back, seen as ${egress[family]}`,
      );
    const own = podOf(stage.lab, pod);
    // From the router before the narrow link, which is not the node, of a packet that the pod knows as its own.
    expect(new Set((await errors.stop()).map(tooBig))).toEqual(
      new Set(
        families.map(
          (family) => `${own[family]} to ${beyond[family]}: ${middleMtu}, says ${outside.sec.server[family]}`,
        ),
      ),
    );
  });
});

/** An ICMP error as text: whose packet to whom was larger than what, and who says so. Addresses of IPv6 without their zeros. */
function tooBig(frame: Uint8Array): string {
  const bytes = Buffer.from(frame);
  const four = bytes.readUInt16BE(12) === 0x0800;
  const at = four
    ? { from: 14 + 12, mtu: bytes.readUInt16BE(14 + 20 + 6), quoted: 14 + 20 + 8 + 12, length: 4 }
    : { from: 14 + 8, mtu: bytes.readUInt32BE(14 + 40 + 4), quoted: 14 + 40 + 8 + 8, length: 16 };
  const text = (offset: number) => addressText(four ? 4 : 6, bytes.subarray(offset, offset + at.length));
  return `${text(at.quoted)} to ${text(at.quoted + at.length)}: ${at.mtu}, says ${text(at.from)}`;
}

function addressText(family: Family, bytes: Uint8Array): string {
  if (family === 4) return bytes.join(".");
  const groups = Array.from({ length: 8 }, (_, at) =>
    (((bytes[2 * at] ?? 0) << 8) | (bytes[2 * at + 1] ?? 0)).toString(16),
  );
  return new URL(`http://[${groups.join(":")}]`).hostname.slice(1, -1);
}
