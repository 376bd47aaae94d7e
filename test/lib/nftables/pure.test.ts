// nft's listings and monitor lines. The texts were printed by nft 1.0.6 in a network namespace.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  normalizeTable,
  parseCounters,
  parseElements,
  parseGeneration,
  parseNames,
} from "../../../lib/nftables/pure.ts";

const LISTED = `table inet t { # handle 3
	counter cc { # handle 2
		packets 7 bytes 210
	}

	set s { # handle 3
		type ipv4_addr
		flags timeout
		counter
		elements = { 10.0.0.1 counter packets 3 bytes 90 timeout 10m expires 9m59s992ms, 10.0.0.2 counter packets 0 bytes 0,
			     10.0.0.3 timeout 1h expires 59m }
	}

	chain c { # handle 1
		type filter hook output priority filter; policy accept;
		counter name "cc" # handle 4
		ip daddr 127.0.0.1 counter packets 12 bytes 1008 comment "a: \\ counter packets 5 bytes 3" # handle 5
		log prefix "counter packets 1 bytes 2 " counter packets 4 bytes 5 drop comment "b # handle 6" # handle 6
		counter packets 99 bytes 99 accept # handle 7
		ip saddr 10.0.0.1 drop comment "no counter" # handle 8
		 counter packets 18446744 bytes 9007199254740991 comment "" # handle 9
	}
}
`;

describe("maps", () => {
  const listed = `table inet t {
	map m {
		type ipv4_addr . ifname : ipv4_addr
		elements = { 10.244.1.3 . "eth1" : 10.10.10.50,
			     10.244.2.3 . "a, b" : 10.10.10.51 }
	}

	map empty {
		type ipv6_addr . ifname : ipv6_addr
	}

	chain c {
		type nat hook postrouting priority srcnat; policy accept;
		snat ip to ip saddr . oifname map @m
	}
}
`;

  it("names the chains and maps of a table, and nothing in them", () => {
    expect(parseNames(listed)).toEqual({ chains: ["c"], maps: ["m", "empty"] });
    expect(parseNames("")).toEqual({ chains: [], maps: [] });
  });

  it("gives the elements of a map", () => {
    expect(parseElements(listed)).toEqual([
      { key: ["10.244.1.3", "eth1"], value: "10.10.10.50" },
      { key: ["10.244.2.3", "a, b"], value: "10.10.10.51" },
    ]);
    expect(parseElements('\tmap m {\n\t\telements = { fd00::3 . "eth1" : fd00:10::50 }\n\t}\n')).toEqual([
      { key: ["fd00::3", "eth1"], value: "fd00:10::50" },
    ]);
    expect(parseElements("table inet t {\n\tmap m {\n\t}\n}\n")).toEqual([]);
  });
});

describe("normalizeTable", () => {
  it("takes out figures, lifetimes, handles and indentation, and leaves strings alone", () => {
    expect(normalizeTable(LISTED)).toBe(`table inet t {
counter cc {
}
set s {
type ipv4_addr
flags timeout
counter
elements = { 10.0.0.1 counter timeout 10m, 10.0.0.2 counter,
10.0.0.3 timeout 1h }
}
chain c {
type filter hook output priority filter; policy accept;
counter name "cc"
ip daddr 127.0.0.1 counter comment "a: \\ counter packets 5 bytes 3"
log prefix "counter packets 1 bytes 2 " counter drop comment "b # handle 6"
counter accept
ip saddr 10.0.0.1 drop comment "no counter"
counter comment ""
}
}
`);
  });

  it("makes listings equal whatever was counted", () => {
    const figure = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });
    fc.assert(
      fc.property(figure, figure, (packets, bytes) => {
        const counted = LISTED.replaceAll(/packets (12|3|7) bytes \d+/g, `packets ${packets} bytes ${bytes}`);
        expect(normalizeTable(counted)).toBe(normalizeTable(LISTED));
      }),
    );
  });

  it("changes nothing the second time", () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        expect(normalizeTable(normalizeTable(text))).toBe(normalizeTable(text));
      }),
    );
  });

  it("keeps rules that differ apart", () => {
    expect(normalizeTable(LISTED.replace("10.0.0.1 drop", "10.0.0.1 accept"))).not.toBe(
      normalizeTable(LISTED),
    );
    expect(normalizeTable(LISTED.replace("timeout 1h", "timeout 2h"))).not.toBe(normalizeTable(LISTED));
  });
});

describe("parseCounters", () => {
  it("names each counting rule by its comment", () => {
    expect(parseCounters(LISTED)).toEqual([
      { name: "a: \\ counter packets 5 bytes 3", packets: 12, bytes: 1008 },
      { name: "b # handle 6", packets: 4, bytes: 5 },
      { name: "", packets: 18446744, bytes: 9007199254740991 },
    ]);
  });

  it("finds none in a table without", () => {
    expect(parseCounters("table ip q {\n}\n")).toEqual([]);
  });
});

describe("parseGeneration", () => {
  it.each([
    [
      "# new generation 4 by process 2347 (iptables-nft)",
      { generation: 4, pid: 2347, process: "iptables-nft" },
    ],
    ["# new generation 5 by process 3610 (nft)", { generation: 5, pid: 3610, process: "nft" }],
    ["# new generation 6 by process 1 (odd (name) x)", { generation: 6, pid: 1, process: "odd (name) x" }],
    ["# new generation 7 by process 1 (broken", { generation: 7, pid: 1, process: "broken" }],
    ["# new generation 8", { generation: 8 }],
    ["add rule ip filter OUTPUT  counter packets 0 bytes 0", undefined],
    ['add rule ip q c comment "# new generation 9"', undefined],
    ["", undefined],
  ])("%j", (line, generation) => {
    expect(parseGeneration(line)).toEqual(generation);
  });
});
