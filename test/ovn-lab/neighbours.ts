// Who answers for an address on a link. The kernel asks, as it would for a packet; tcpdump sees all answers, of which the kernel
// keeps one. A namespace, a link and an address in, the MAC addresses in the answers out.
import { isIPv6 } from "node:net";
import { run } from "../../lib/exec/index.ts";
import { captureFrames } from "../lab/capture.ts";
import { until } from "../support/until.ts";

/** An address as its bytes in hex: `::` is the only way here to leave any out. */
function hexOf(address: string): string {
  if (!isIPv6(address)) return Buffer.from(address.split(".").map(Number)).toString("hex");
  const [left = "", right] = address.split("::");
  const groups = (part: string | undefined) =>
    (part ? part.split(":") : []).map((group) => group.padStart(4, "0"));
  const [first, last] = [groups(left), groups(right)];
  return [...first, ...Array<string>(8 - first.length - last.length).fill("0000"), ...last].join("");
}

/** The MAC address that says it has the address; undefined for any other frame. RFC 826, RFC 4861 section 4.4. */
function answerOf(frame: Uint8Array, address: string): string | undefined {
  const hex = Buffer.from(frame).toString("hex");
  // Ethernet is 14 bytes; an ARP packet has the sender's addresses at 8 and 14.
  const isArp = hex.slice(24, 28) === "0806" && hex.slice(40, 44) === "0002";
  // IPv6 is 40 bytes more; an advertisement has its target at 8.
  const isAdvertisement = hex.slice(24, 28) === "86dd" && hex.slice(108, 110) === "88";
  const [claimed, mac] = isArp
    ? [hex.slice(56, 64), hex.slice(44, 56)]
    : isAdvertisement
      ? [hex.slice(124, 156), hex.slice(12, 24)]
      : [];
  return mac !== undefined && claimed === hexOf(address) ? mac.replace(/..(?!$)/g, "$&:") : undefined;
}

export async function whoHas(namespace: string, device: string, address: string): Promise<string[]> {
  const inside = (...words: string[]) => run("ip", ["-n", namespace, ...words], { okExitCodes: [0, 2] });
  const watch = await captureFrames(namespace, device, isIPv6(address) ? "icmp6" : "arp");
  await inside("neigh", "del", address, "dev", device);
  // `use`: as if a packet were to be sent there.
  await inside("neigh", "replace", address, "dev", device, "use");
  await until(async () => {
    const { stdout } = await inside("neigh", "show", address, "dev", device, "nud", "all");
    return /REACHABLE|STALE|DELAY|PROBE|FAILED/.test(stdout) || stdout.trim() === "";
  }, `${namespace} has an answer for ${address} or gives up`);
  const found = (await watch.stop()).flatMap((frame) => answerOf(frame, address) ?? []);
  return [...new Set(found)].sort((a, b) => (a < b ? -1 : 1));
}
