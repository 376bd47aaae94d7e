// Stands for OVN-Kubernetes' own agent on a node of the lab: programs in the kernel what that does for egress IPs on eth1
// (reference D.2, C.1 L1 to L4; I.2 for the nft shape). In: lab, shape, who leaves with what. Nothing is taken away by it.
import type { Lab } from "../lab/lab.ts";
import { type Backend, type Family, families, type PodName, pods } from "../lab/topology.ts";

/** As of December 2024 (iptables) and of July 2026 (nft maps). */
export type Shape = "base" | "new";

export type Given = Readonly<Partial<Record<PodName, Readonly<Record<Family, string>>>>>;

const chain = "OVN-KUBE-EGRESS-IP-MULTI-NIC";

export interface ReferenceOptions {
  readonly backend?: Backend;
  /** Pods that OVN leads here; those that are given something when left out. */
  readonly led?: Given;
}

/** Resolves when all of it is there. What it finds to be there it leaves, as the reference's managers do. */
export async function programReference(
  lab: Lab,
  shape: Shape,
  given: Given,
  { backend = "nft", led = given }: ReferenceOptions = {},
): Promise<void> {
  const entries = Object.entries(given).flatMap(([pod, addresses]) =>
    families.map((family) => ({ family, pod: pods[pod as PodName][family], egress: addresses[family] })),
  );
  const node = (...script: readonly string[]) => lab.nodeExec("node1", "sh", ["-ec", script.join("\n")]);
  const ip = (family: Family, lines: readonly string[], ...force: readonly string[]) =>
    lab.nodeExec("node1", "ip", [`-${family}`, ...force, "-batch", "-"], {
      input: `${lines.join("\n")}\n`,
      okExitCodes: force.length > 0 ? [0, 1] : [0],
    });
  await node(
    "echo 2 >/proc/sys/net/ipv4/conf/ovn-k8s-mp0/rp_filter",
    "echo 1 >/proc/sys/net/ipv4/conf/all/src_valid_mark",
  );
  const own = (family: Family) => entries.filter((entry) => entry.family === family);
  // Since then OVN also says by a mark what it leads here for an egress IP; nobody takes that away with the kernel's state.
  if (shape === "new") await lab.nodeExec("node1", "nft", ["-f", "-"], { input: ledTable(led) });
  // What translates is there before what leads to it, routes before rules: another order loses packets by itself.
  if (shape === "new") await lab.nodeExec("node1", "nft", ["-f", "-"], { input: nftTable(entries) });
  for (const family of families) {
    if (shape === "base")
      await lab.nodeExec(
        "node1",
        `${family === 4 ? "iptables" : "ip6tables"}-${backend}-restore`,
        ["--noflush"],
        { input: chains(own(family)) },
      );
    const length = family === 4 ? 32 : 128;
    // The nft shape's addresses are never the node's own source; the older ones may become it.
    const how = family === 4 ? "" : shape === "new" ? " nodad preferred_lft 0" : " nodad";
    const addresses = [...new Set(own(family).map(({ egress }) => egress))];
    const lines = addresses.map((egress) => `address add ${egress}/${length} dev eth1${how}`);
    await ip(family, lines, "-force");
    await copyRoutes(lab, family);
    await ip(family, [
      "rule add fwmark 0x3f0 lookup main pref 5999",
      ...own(family).map(({ pod }) => `rule add from ${pod}/${length} lookup 1004 pref 6000`),
    ]);
  }
}

interface Entry {
  readonly family: Family;
  readonly pod: string;
  readonly egress: string;
}

interface Listed {
  readonly dst: string;
  readonly gateway?: string;
  readonly table?: string;
  readonly type?: string;
}

/** Destination and gateway of eth1's routes in main, where its table has none to that destination by eth1 yet. */
async function copyRoutes(lab: Lab, family: Family): Promise<void> {
  const { stdout } = await lab.nodeExec("node1", "ip", [
    ...[`-${family}`, "-json", "-details", "route", "show", "dev", "eth1", "table", "all"],
  ]);
  const all = JSON.parse(stdout) as readonly Listed[];
  const present = new Set(all.filter(({ table }) => table === "1004").map(({ dst }) => dst));
  const lines = all
    .filter(({ dst, table, type }) => (table ?? "main") === "main" && type === "unicast" && !present.has(dst))
    .map(({ dst, gateway }) => `route add ${dst}${gateway ? ` via ${gateway}` : ""} dev eth1 table 1004`);
  if (lines.length > 0)
    await lab.nodeExec("node1", "ip", [`-${family}`, "-batch", "-"], { input: `${lines.join("\n")}\n` });
}

/** The jump is put first, before whatever is there. */
function chains(entries: readonly Entry[]): string {
  const all = "--nfmask 0xffffffff --ctmask 0xffffffff";
  return [
    "*nat",
    `:${chain} - [0:0]`,
    ...entries.map(({ pod, egress }) => `-A ${chain} -s ${pod} -o eth1 -j SNAT --to-source ${egress}`),
    `-I POSTROUTING -j ${chain}`,
    "COMMIT",
    "*mangle",
    `-I PREROUTING -m mark --mark 0x0 -j CONNMARK --restore-mark ${all}`,
    `-I PREROUTING -m mark --mark 0x3f0 -j CONNMARK --save-mark ${all}`,
    "COMMIT",
    "",
  ].join("\n");
}

/** Stands for OVN's policies, which mark with 1009 what they lead to this host for these pods. */
function ledTable(given: Given): string {
  const led = families.map((family) => {
    const from = Object.keys(given).map((pod) => pods[pod as PodName][family]);
    return `iifname "ovn-k8s-mp0" ${family === 4 ? "ip" : "ip6"} saddr { ${from.join(", ")} } meta mark set 1009`;
  });
  return `table inet of-ovn
delete table inet of-ovn
table inet of-ovn {
  chain led { type filter hook prerouting priority raw; ${led.join("; ")}; }
}
`;
}

function nftTable(entries: readonly Entry[]): string {
  const elements = (family: Family) =>
    entries
      .filter((entry) => entry.family === family)
      .map(({ pod, egress }) => `${pod} . "eth1" : ${egress}`)
      .join(", ");
  return `table inet ovn-kubernetes {
  map egress-ip-snat-v4 { type ipv4_addr . ifname : ipv4_addr; elements = { ${elements(4)} } }
  map egress-ip-snat-v6 { type ipv6_addr . ifname : ipv6_addr; elements = { ${elements(6)} } }
  chain egress-ip-snat {
    type nat hook postrouting priority srcnat; policy accept;
    snat ip to ip saddr . meta oifname map @egress-ip-snat-v4
    snat ip6 to ip6 saddr . meta oifname map @egress-ip-snat-v6
  }
  chain egress-ip-sec-filter {
    type filter hook postrouting priority srcnat + 1; policy accept;
    ip saddr 10.244.0.0/16 meta mark 0x000003f1 drop
    ip6 saddr fd00:10:244::/48 meta mark 0x000003f1 drop
  }
  chain egress-ip-connmark {
    type filter hook prerouting priority mangle; policy accept;
    meta mark 0 meta mark set ct mark
    meta mark 0x000003f0 ct mark set meta mark
  }
}
`;
}
