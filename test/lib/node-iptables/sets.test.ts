// `ipset save` text to values. The listings were printed by ipset 7.17.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ParseError, parseSets, parseSizes } from "../../../lib/node-iptables/pure.ts";

const SAVED = `create egressip4 hash:ip family inet hashsize 1024 maxelem 1048576 skbinfo bucketsize 12 initval 0x27ec25dd
add egressip4 10.244.1.3 skbmark 0x100000/0x7ff00000
add egressip4 10.244.1.4
create KUBE-CLUSTER-IP hash:ip,port family inet hashsize 1024 maxelem 65536 bucketsize 12 initval 0x6fd1c1b2
add KUBE-CLUSTER-IP 10.96.0.1,tcp:443
create egressip-exempt6 hash:net family inet6 hashsize 2048 maxelem 65536 bucketsize 12 initval 0x1
add egressip-exempt6 fd00:10:244::/48
create hidden list:set size 8
add hidden egressip4
create said hash:ip family inet hashsize 1024 maxelem 65536 comment bucketsize 12 initval 0xb1e7c3e1
add said 10.0.0.1 comment "create x hash:ip"
`;

const ours = (name: string) => name.startsWith("egressip");

/** With the members walked. */
const read = (text: string, wanted: (name: string) => boolean) =>
  new Map([...parseSets(text, wanted)].map(([name, set]) => [name, { ...set, members: [...set.members] }]));

describe("parseSets", () => {
  it("reads the sets that are asked for, without what the kernel chose", () => {
    expect(read(SAVED, ours)).toEqual(
      new Map([
        [
          "egressip4",
          {
            name: "egressip4",
            type: "hash:ip",
            options: "family inet maxelem 1048576 skbinfo",
            members: [
              ["10.244.1.3", "skbmark 0x100000/0x7ff00000"],
              ["10.244.1.4", ""],
            ],
          },
        ],
        [
          "egressip-exempt6",
          {
            name: "egressip-exempt6",
            type: "hash:net",
            options: "family inet6 maxelem 65536",
            members: [["fd00:10:244::/48", ""]],
          },
        ],
      ]),
    );
  });

  it("reads every set, comments included", () => {
    const all = read(SAVED, () => true);
    expect([...all.keys()]).toEqual(["egressip4", "KUBE-CLUSTER-IP", "egressip-exempt6", "hidden", "said"]);
    expect(all.get("said")?.members).toEqual([["10.0.0.1", 'comment "create x hash:ip"']]);
  });

  it("reads nothing as no sets, and a last line without its newline", () => {
    expect(parseSets("", ours)).toEqual(new Map());
    expect(read(SAVED.trimEnd(), ours)).toEqual(read(SAVED, ours));
  });

  it("can be walked twice", () => {
    const members = parseSets(SAVED, ours).get("egressip4")?.members ?? [];
    expect([...members]).toHaveLength(2);
    expect([...members]).toEqual([...members]);
  });

  it("does not look at the lines of sets that nobody asked for", () => {
    expect([...read(SAVED.replace("add hidden egressip4", "!"), ours).keys()]).toEqual([
      ...read(SAVED, ours).keys(),
    ]);
  });

  it.each([
    ["prose", "create a hash:ip family inet\nipset v7.17: Kernel error received\n", 2],
    ["an add without member", "create a hash:ip family inet\nadd a\n", 2],
    ["a create without type", "create a\n", 1],
    ["another verb", "create a hash:ip family inet\nadd a 10.0.0.1\nflush a\n", 3],
    ["a line that is empty", "create a hash:ip family inet\nadd a 10.0.0.1\n\nadd a 10.0.0.2\n", 3],
    [
      "an entry of another set",
      "create a hash:ip family inet\ncreate b hash:ip family inet\nadd a 10.0.0.1\n",
      3,
    ],
  ])("does not guess around %s", (_, text, line) => {
    expect(() => read(text, () => true)).toThrow(ParseError);
    expect(() => read(text, () => true)).toThrow(`line ${line}:`);
  });

  it("gives of any text a value or a ParseError", () => {
    const word = fc.constantFrom(
      "create ",
      "add ",
      "a ",
      "hash:ip ",
      "family inet",
      "\n",
      "hashsize",
      " 10.0.0.1",
    );
    fc.assert(
      fc.property(fc.array(fc.oneof(word, fc.string())), (parts) => {
        try {
          expect(read(parts.join(""), () => true)).toBeInstanceOf(Map);
        } catch (error) {
          expect(error).toBeInstanceOf(ParseError);
        }
      }),
      { numRuns: 2000 },
    );
  });

  it("reads back what is written in its form", () => {
    const member = fc.ipV4();
    const extension = fc.option(fc.nat({ max: 0x7ff }), { nil: undefined });
    const members = fc.dictionary(member, extension);
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.constantFrom("egressip4", "x", "y")),
        fc.array(members),
        (names, contents) => {
          const sets = names.map((name, at) => ({ name, members: Object.entries(contents[at] ?? {}) }));
          const text = sets
            .flatMap(({ name, members: entries }) => [
              `create ${name} hash:ip family inet hashsize 64 maxelem 9`,
              ...entries.map(
                ([key, mark]) => `add ${name} ${key}${mark === undefined ? "" : ` skbmark 0x${mark}`}`,
              ),
            ])
            .join("\n");
          expect([...read(text, () => true)].map(([name, set]) => [name, set.members])).toEqual(
            sets.map(({ name, members: entries }) => [
              name,
              entries.map(([key, mark]) => [key, mark === undefined ? "" : `skbmark 0x${mark}`]),
            ]),
          );
        },
      ),
    );
  });
});

describe("parseSizes", () => {
  const block = (name: string, entries: number) =>
    `Name: ${name}\nType: hash:ip\nRevision: 6\nHeader: family inet hashsize 1024 maxelem 65536\nSize in memory: 432\nReferences: 2\nNumber of entries: ${entries}\n`;

  it("says how many entries each set has", () => {
    expect([...parseSizes(`${block("egressip4", 3)}\n${block("other", 0)}`)]).toEqual([
      ["egressip4", 3],
      ["other", 0],
    ]);
  });

  it("takes no sets for no sets", () => {
    expect(parseSizes("").size).toBe(0);
  });

  it("refuses a set that does not say", () => {
    expect(() => parseSizes("Name: egressip4\nType: hash:ip\n")).toThrow(ParseError);
  });
});
