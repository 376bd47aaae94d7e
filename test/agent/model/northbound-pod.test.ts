// Which pod address a row is about, whatever somebody made of it.
import { describe, expect, it } from "vitest";
import type { Row } from "../../../agent/model/northbound.ts";
import { podAddressOf } from "../../../agent/model/northbound-pod.ts";

const policy = (match: string, priority = 100) => ({
  table: "Logical_Router_Policy" as const,
  columns: { match, priority },
});
const nat = (logical_ip: string) => ({ table: "NAT" as const, columns: { logical_ip } });

describe("podAddressOf", () => {
  it.each<[Pick<Row, "table" | "columns">, string | undefined]>([
    [policy("ip4.src == 10.244.1.3"), "10.244.1.3"],
    [policy("ip6.src == fd00:10:244:1::3"), "fd00:10:244:1::3"],
    [policy("ip6.src == FD00:10:244:1:0:0:0:3"), "fd00:10:244:1::3"],
    [policy("ip6.src == 10.244.1.3"), "10.244.1.3"],
    [policy("ip4.src == 10.244.1.3 && ip4.dst == 10.244.1.4"), ""],
    [policy("ip4.src==10.244.1.3"), ""],
    [policy("ip4.src == 10.244.1.0/24"), ""],
    [policy("ip4.src == 10.244.1.300"), ""],
    [policy("ip4.src == $a712973235162149816"), ""],
    [policy(""), ""],
    [policy("ip4.src == 10.244.1.3", 102), undefined],
    [policy("pkt.mark == 42", 102), undefined],
    [nat("10.244.1.3"), "10.244.1.3"],
    [nat("FD00::1"), "fd00::1"],
    [nat("10.244.0.0/16"), ""],
    [nat(""), ""],
    [{ table: "QoS", columns: { match: "ip4.src == 10.244.1.3", priority: 100 } }, undefined],
    [{ table: "Address_Set", columns: { name: "a1" } }, undefined],
    [{ table: "Logical_Router_Static_Route", columns: { ip_prefix: "10.244.1.3" } }, undefined],
  ])("%j is %j", (row, address) => {
    expect(podAddressOf(row)).toBe(address);
  });
});
