// Matches of OVN's language, as our own rows and OVN-Kubernetes' say them: true, false, or not known.
import { describe, expect, it } from "vitest";
import { type Matched, meets } from "../../agent/trace-match.ts";

const packet: Matched = {
  family: 4,
  source: "10.244.1.3",
  destination: "198.51.100.80",
  protocol: "tcp",
  port: 80,
  inport: "rtos-node1",
  mark: 42,
  inSet: (set, address) => (set === "a1" ? address === "10.244.1.3" : set === "a2" ? false : undefined),
};

describe("a match", () => {
  it.each<[string, boolean | undefined]>([
    ["ip4.src == 10.244.1.3", true],
    ["ip4.src == 10.244.1.4", false],
    ["ip4.src == 10.244.0.0/16 && ip4.dst == 198.51.100.0/24", true],
    ["ip4.src == {10.244.1.4, 10.244.1.3}", true],
    ["ip4.src != {10.244.1.4, 10.244.1.3}", false],
    ["ip4.src != 10.244.2.0/24", true],
    ["ip6.src == fd00::1", false],
    ["ip6.src != fd00::1", false],
    ["ip4.src == $a1", true],
    ["ip4.src == $a2", false],
    ["ip4.src == $a3", undefined],
    ["ip4.src == $a1 || ip4.src == $a3", true],
    ["ip4.src == $a2 || ip4.src == $a3", undefined],
    ["ip4.src == $a2 && ip4.src == $a3", false],
    ["(ip4.src == $a2 || ip4.src == $a1) && ip4.dst == 198.51.100.80", true],
    ["ip4.src == $a2 || ip4.src == $a1 && ip4.dst == 203.0.113.1", false],
    ['inport == "rtos-node1"', true],
    ['inport == "rtots-node1" && ip4', false],
    ["pkt.mark == 42", true],
    ["pkt.mark == 0", false],
    ["(!ct.trk || !ct.rpl) && ip4", true],
    ["!(ip4.src == 10.244.1.3)", false],
    ["ip", true],
    ["ip6 || udp", false],
    ["tcp && tcp.dst == {80, 443}", true],
    ["tcp.dst == 81", false],
    ["udp.dst == 80", false],
    ["tcp.dst != 81", true],
    ["eth.src == 0a:58:0a:f4:01:03", undefined],
    ["ip.ttl < 3", undefined],
    ["ip4.dst == 198.51.100.80 /* node1 */", true],
    ['inport == "rtos-node1" && ip4.dst == 198.51.100.80 /* a && b */ && ip4', true],
    ["ip4.src == 10.244.1.3 ip4", undefined],
    ["(ip4.src == 10.244.1.3", undefined],
    ["", undefined],
  ])("%s is %s", (match, truth) => {
    expect(meets(match, packet)).toBe(truth);
  });

  it("of a port, where none is said, is not known", () => {
    expect(meets("tcp.dst == 80", { ...packet, port: undefined })).toBe(undefined);
  });
});
