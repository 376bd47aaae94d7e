// The folder of YAML files on a real file system: what is read, what is kept, what is reported, and what a
// change costs.
import { execFileSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  watch,
  writeFileSync,
} from "node:fs";
import { mkdtemp, open, readdir } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { parseAllDocuments } from "yaml";
import { type Files, type FilesFacts, openFiles } from "../../../agent/inputs/files.ts";
import { until } from "../../support/until.ts";
import { yamlLike } from "../../support/yaml-like.ts";

// They do what they always do; spied on to count, and to let something happen between two system calls.
vi.mock("yaml", { spy: true });
vi.mock("node:fs", { spy: true });
vi.mock("node:fs/promises", { spy: true });

let root: string;
let directory: string;
let files: Files;
let wakes = 0;

beforeEach(async () => {
  root = await mkdtemp(path.join(os.tmpdir(), "egressip-files-"));
  directory = path.join(root, "objects");
  mkdirSync(directory);
  wakes = 0;
  files = openFiles(directory, { onChange: () => wakes++ });
});

afterEach(() => {
  vi.resetAllMocks();
  files.close();
  rmSync(root, { recursive: true, force: true });
});

function write(name: string, text: string): void {
  writeFileSync(path.join(directory, name), text);
}

function pod(name: string, more = ""): string {
  return `apiVersion: v1
kind: Pod
metadata:
  name: ${name}
  namespace: web
  labels:
    app: web
${more}spec:
  nodeName: node-1
status:
  podIP: 10.244.1.9
`;
}

function withLabel(name: string, label: string): string {
  return pod(name).replace("app: web", `app: ${label}`);
}

const all = () => files.read({ all: true });
const keys = (facts: FilesFacts) => [...facts.objects.keys()].sort((a, b) => (a < b ? -1 : 1));
const texts = (facts: FilesFacts) =>
  facts.problems.map(({ object, path: at, text }) => `${object} | ${at} | ${text}`);

/** Reads as the agent does, only what the watch told, until the claim holds. */
async function readUntil(claim: (facts: FilesFacts) => boolean, what: string): Promise<FilesFacts> {
  return until(async () => {
    const facts = await files.read();
    return claim(facts) && facts;
  }, what);
}

describe("a folder", () => {
  it("is read by its .yaml, .yml and .json files, several documents a file, lists expanded", async () => {
    write("a.yaml", `# all of it\n---\n${pod("a1")}---\n${pod("a2")}`);
    write("b.yml", `apiVersion: v1\nkind: List\nitems:\n- ${pod("b1").trimEnd().replaceAll("\n", "\n  ")}\n`);
    write(
      "c.json",
      JSON.stringify({
        apiVersion: "v1",
        kind: "PodList",
        items: [{ metadata: { name: "c1", namespace: "web" } }],
      }),
    );
    write("d.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: ignored\n");
    for (const name of [
      ".hidden.yaml",
      "x.yaml~",
      ".x.yaml.swp",
      "4913",
      "x.yaml.tmp",
      "#x.yaml#",
      "notes.txt",
      "yaml",
    ])
      write(name, pod("never"));
    mkdirSync(path.join(directory, "sub"));
    write("sub/e.yaml", pod("never"));
    mkdirSync(path.join(directory, "folder.yaml"));
    const facts = await files.read();
    expect(keys(facts)).toEqual(["Pod/web/a1", "Pod/web/a2", "Pod/web/b1", "Pod/web/c1"]);
    expect(facts.changed).toEqual(keys(facts));
    expect(facts.problems).toEqual([]);
  });

  it("with nothing in it is empty, which is known", async () => {
    expect(await files.read()).toEqual({ objects: new Map(), problems: [], version: 0, changed: [] });
  });

  it("gives the same map, the same objects and the same version while nothing changes", async () => {
    write("a.yaml", pod("a"));
    const first = await files.read();
    const object = first.objects.get("Pod/web/a");
    for (const facts of [await files.read(), await all(), await all()]) {
      expect(facts.objects).toBe(first.objects);
      expect(facts.objects.get("Pod/web/a")).toBe(object);
      expect(facts.version).toBe(first.version);
      expect(facts.changed).toEqual([]);
    }
  });

  it("wakes its owner, and reads on what it was told", async () => {
    write("a.yaml", pod("a"));
    await files.read();
    write("b.yaml", pod("b"));
    const added = await readUntil((facts) => facts.objects.size === 2, "the new file");
    expect(added.changed).toEqual(["Pod/web/b"]);
    expect(wakes).toBeGreaterThan(0);
    rmSync(path.join(directory, "a.yaml"));
    const removed = await readUntil((facts) => facts.objects.size === 1, "the removal");
    expect(removed.changed).toEqual(["Pod/web/a"]);
    write("b.yaml", pod("b").replace("10.244.1.9", "10.244.1.10"));
    const changed = await readUntil((facts) => facts.changed.length > 0, "the change in place");
    expect(changed.changed).toEqual(["Pod/web/b"]);
    expect(changed.objects.get("Pod/web/b")).toMatchObject({ addresses: ["10.244.1.10"] });
    write("b.new", pod("b").replace("10.244.1.9", "10.244.1.11"));
    renameSync(path.join(directory, "b.new"), path.join(directory, "b.yaml"));
    const renamed = await readUntil((facts) => facts.changed.length > 0, "the change by rename");
    expect(renamed.objects.get("Pod/web/b")).toMatchObject({ addresses: ["10.244.1.11"] });
  });

  it("does not wake anyone for what editors leave about", async () => {
    await files.read();
    for (const name of [".a.yaml.swp", "a.yaml~", "4913", "a.yaml.tmp", ".#a.yaml"]) {
      write(name, "x");
      rmSync(path.join(directory, name));
    }
    write("z.yaml", pod("z"));
    await readUntil((facts) => facts.objects.size === 1, "the file after the temporary ones");
    // Events come in order; so those of the temporary files are over. Creating and writing z.yaml are a few.
    expect(wakes).toBeLessThanOrEqual(4);
  });

  it("sees with `all` what nobody told, twice within one tick of the clock and at the same size", async () => {
    write("a.yaml", withLabel("a", "one"));
    await all();
    for (const label of ["two", "six", "ten", "one"]) {
      write("a.yaml", withLabel("a", label));
      expect((await all()).objects.get("Pod/web/a")).toMatchObject({ labels: { app: label } });
    }
  });

  it("that cannot be watched is looked at by each read, at time, size and inode", async () => {
    vi.mocked(watch).mockImplementation(() => {
      throw new Error("ENOSPC: System limit for number of file watchers reached");
    });
    const put = (label: string, seconds: number) => {
      write("new", withLabel("a", label));
      utimesSync(path.join(directory, "new"), seconds, seconds);
    };
    put("one", 1_000);
    renameSync(path.join(directory, "new"), path.join(directory, "a.yaml"));
    await files.read();
    vi.mocked(open).mockClear();
    await files.read();
    expect(open).not.toHaveBeenCalled();
    // The same size and time, another inode.
    put("two", 1_000);
    renameSync(path.join(directory, "new"), path.join(directory, "a.yaml"));
    expect((await files.read()).objects.get("Pod/web/a")).toMatchObject({ labels: { app: "two" } });
    // The same size and inode, another time.
    write("a.yaml", withLabel("a", "six"));
    utimesSync(path.join(directory, "a.yaml"), 2_000, 2_000);
    expect((await files.read()).objects.get("Pod/web/a")).toMatchObject({ labels: { app: "six" } });
    rmSync(path.join(directory, "a.yaml"));
    expect((await files.read()).changed).toEqual(["Pod/web/a"]);
    expect(wakes).toBe(0);
  });

  it("answers reads one after the other, each change once", async () => {
    write("a.yaml", pod("a"));
    const answers = await Promise.all([files.read(), all(), files.read()]);
    expect(answers.map((facts) => facts.changed)).toEqual([["Pod/web/a"], [], []]);
  });

  it("says nothing after it was closed", async () => {
    await files.read();
    files.close();
    write("a.yaml", pod("a"));
    await expect(files.read()).rejects.toThrow(/was closed/);
    expect(wakes).toBe(0);
  });
});

describe("a changed file", () => {
  it("changes only the objects whose documents changed", async () => {
    write("a.yaml", [pod("a1"), pod("a2"), pod("a3")].join("---\n"));
    const before = new Map((await files.read()).objects);
    write("a.yaml", [pod("a0"), pod("a1"), withLabel("a2", "new"), pod("a3")].join("---\n"));
    const facts = await all();
    expect(facts.changed).toEqual(["Pod/web/a0", "Pod/web/a2"]);
    expect(facts.objects.get("Pod/web/a1")).toBe(before.get("Pod/web/a1"));
    expect(facts.objects.get("Pod/web/a3")).toBe(before.get("Pod/web/a3"));
    expect(facts.version).toBe(2);
  });

  it("is parsed only where its text changed", async () => {
    const documents = Array.from({ length: 100 }, (_, at) => pod(`a${at}`));
    write("a.yaml", documents.join("---\n"));
    await files.read();
    expect(parseAllDocuments).toHaveBeenCalledTimes(100);
    write("a.yaml", documents.with(50, pod("new")).join("---\n"));
    await all();
    expect(parseAllDocuments).toHaveBeenCalledTimes(101);
    write("a.yaml", `${documents.join("---\n")}bad: [`);
    await all();
    write("a.yaml", documents.join("---\n"));
    await all();
    // The one that came back, the bad last one, and the last one, which was still known.
    expect(parseAllDocuments).toHaveBeenCalledTimes(103);
  });

  it("changes no object when only text changed that the agent does not read", async () => {
    write("a.yaml", pod("a"));
    const before = (await files.read()).objects.get("Pod/web/a");
    write("a.yaml", `# edited\n${pod("a", '  resourceVersion: "77"\n')}`);
    const facts = await all();
    expect(facts).toMatchObject({ changed: [], version: 1 });
    expect(facts.objects.get("Pod/web/a")).toBe(before);
    write("a.yaml", withLabel("a", "new"));
    expect((await all()).changed).toEqual(["Pod/web/a"]);
  });

  it("moves an object to another file without a change", async () => {
    write("a.yaml", pod("a"));
    const before = (await files.read()).objects.get("Pod/web/a");
    write("b.yaml", pod("a"));
    rmSync(path.join(directory, "a.yaml"));
    const facts = await all();
    expect(facts.objects.get("Pod/web/a")).toBe(before);
    expect(facts).toMatchObject({ changed: [], problems: [] });
  });

  it("takes away what it no longer holds", async () => {
    write("a.yaml", `${pod("a1")}---\n${pod("a2")}`);
    await files.read();
    write("a.yaml", pod("a2"));
    expect(await all()).toMatchObject({ changed: ["Pod/web/a1"] });
    write("a.yaml", "# nothing, on purpose\n");
    const facts = await all();
    expect(facts).toMatchObject({ changed: ["Pod/web/a2"], problems: [] });
    expect(facts.objects.size).toBe(0);
  });
});

describe("half a file", () => {
  const broken = `${pod("a1")}---\n${pod("a2")}  bad: [1, 2\n`;

  it("keeps what was last read from it, and says in which line it ends", async () => {
    write("a.yaml", `${pod("a1")}---\n${pod("a2")}`);
    const before = new Map((await files.read()).objects);
    write("a.yaml", broken);
    const bad = await all();
    expect(new Map(bad.objects)).toEqual(before);
    expect(bad).toMatchObject({ changed: [], version: 2 });
    expect(texts(bad)).toEqual([
      expect.stringMatching(/^file:a\.yaml \| {2}\| line 24: .*; the 2 objects last read from it stay$/),
    ]);
    expect((await all()).version).toBe(2);
    write("a.yaml", `${pod("a1")}---\n${withLabel("a2", "new")}`);
    const good = await all();
    expect(good).toMatchObject({ problems: [], changed: ["Pod/web/a2"], version: 3 });
    expect(good.objects.get("Pod/web/a1")).toBe(before.get("Pod/web/a1"));
  });

  it("from the start gives a Problem and no objects", async () => {
    write("a.yaml", broken);
    write("b.yaml", pod("b"));
    const facts = await files.read();
    expect(keys(facts)).toEqual(["Pod/web/b"]);
    expect(texts(facts)).toEqual([expect.stringMatching(/^file:a\.yaml \| {2}\| line 24: [^;]*$/)]);
  });

  it("of no bytes is the moment before writing", async () => {
    write("a.yaml", pod("a"));
    await files.read();
    truncateSync(path.join(directory, "a.yaml"));
    const facts = await all();
    expect(keys(facts)).toEqual(["Pod/web/a"]);
    expect(texts(facts)).toEqual([
      "file:a.yaml |  | is empty; remove the file if that is meant; the 1 objects last read from it stay",
    ]);
    write("a.yaml", pod("a"));
    expect(await all()).toMatchObject({ problems: [], changed: [] });
  });

  it("of no bytes is no problem while there was nothing in it", async () => {
    write("a.yaml", "");
    expect(await files.read()).toMatchObject({ problems: [], changed: [] });
  });

  it("that is removed is gone with its problem", async () => {
    write("a.yaml", pod("a"));
    await files.read();
    write("a.yaml", "a: [");
    await all();
    rmSync(path.join(directory, "a.yaml"));
    expect(await all()).toMatchObject({ problems: [], changed: ["Pod/web/a"] });
  });

  it("keeps what it held when it can no longer be opened", async () => {
    write("a.yaml", pod("a"));
    await files.read();
    rmSync(path.join(directory, "a.yaml"));
    symlinkSync("a.yaml", path.join(directory, "a.yaml"));
    const facts = await all();
    expect(keys(facts)).toEqual(["Pod/web/a"]);
    expect(texts(facts)).toEqual([
      expect.stringMatching(/^file:a\.yaml \| {2}\| cannot be read: ELOOP.*the 1 objects/),
    ]);
  });
});

describe("one key twice", () => {
  it("is a Problem naming both files, and the first by file name holds", async () => {
    write("b.yaml", withLabel("x", "b"));
    const before = await files.read();
    expect(before.objects.get("Pod/web/x")).toMatchObject({ labels: { app: "b" } });
    write("a.yaml", `# a line\n---\n${withLabel("x", "a")}`);
    // By what was told, so that b.yaml is not looked at again after a.yaml.
    const both = await readUntil((facts) => facts.changed.length > 0, "the second file");
    expect(both.objects.get("Pod/web/x")).toMatchObject({ labels: { app: "a" } });
    expect(both.changed).toEqual(["Pod/web/x"]);
    expect(texts(both)).toEqual([
      'Pod/web/x |  | is in "a.yaml" line 2, which is used, and again in "b.yaml" line 1',
    ]);
    rmSync(path.join(directory, "a.yaml"));
    const one = await all();
    expect(one.objects.get("Pod/web/x")).toMatchObject({ labels: { app: "b" } });
    expect(one).toMatchObject({ changed: ["Pod/web/x"], problems: [] });
  });

  it("in one file lets the first document hold, also when they are the same text", async () => {
    write(
      "a.yaml",
      `---\n${withLabel("x", "one")}---\n${withLabel("x", "two")}---\n${withLabel("x", "one")}`,
    );
    const facts = await files.read();
    expect(facts.objects.get("Pod/web/x")).toMatchObject({ labels: { app: "one" } });
    expect(texts(facts)).toEqual([
      'Pod/web/x |  | is in "a.yaml" line 1, which is used, and again in "a.yaml" line 13, "a.yaml" line 25',
    ]);
    write("a.yaml", `---\n${withLabel("x", "two")}`);
    expect(await all()).toMatchObject({ problems: [], changed: ["Pod/web/x"] });
  });
});

describe("documents that are no objects", () => {
  it.each([
    ["7\n", "document at line 1: must be an object, not the number 7"],
    [`${pod("a")}---\n- 1\n`, "document at line 12: must be an object, not a list"],
    ["metadata: {}\n", "document at line 1: must be text, not missing"],
    ["apiVersion: v1\nkind: List\nitems: 3\n", "document at line 1: must be a list, and lists do not nest"],
    [
      "apiVersion: v1\nkind: Pod\nmetadata: {name: A}\n",
      'document at line 1: Pod must have a DNS name, not "A"',
    ],
  ])("%j", async (text, problem) => {
    write("a.yaml", text);
    expect((await files.read()).problems).toEqual([
      expect.objectContaining({ object: "file:a.yaml", text: problem }),
    ]);
  });

  it("in a list are named by their place in it", async () => {
    write("a.yaml", `apiVersion: v1\nkind: List\nitems:\n- 1\n- kind: Pod\n`);
    expect(texts(await files.read())).toEqual([
      "file:a.yaml | items[0] | document at line 1: must be an object, not the number 1",
      "file:a.yaml | items[1].apiVersion | document at line 1: must be text, not missing",
    ]);
  });

  it("keep the line when other documents come before them", async () => {
    write("a.yaml", "---\n7\n");
    expect(texts(await files.read())[0]).toContain("line 1:");
    write("a.yaml", "# more\n# and more\n---\n7\n");
    expect(texts(await all())[0]).toContain("line 3:");
  });

  it("are nothing when there is nothing between two markers", async () => {
    write("a.yaml", "---\n---\n# comment\n---\n~\n---\n");
    expect(await files.read()).toMatchObject({ problems: [], changed: [] });
  });
});

describe("YAML", () => {
  const named = async (text: string) => {
    write("a.yaml", text);
    return files.read();
  };

  it("keeps timestamps and look-alikes as text, whatever version it says it is", async () => {
    for (const head of ["", "%YAML 1.1\n---\n"]) {
      write(
        "a.yaml",
        `${head}apiVersion: k8s.ovn.org/v1\nkind: EgressIP\nmetadata: {name: a, creationTimestamp: 2026-01-02T03:04:05Z}\nspec:\n  egressIPs: [172.18.0.50]\n  namespaceSelector: {matchLabels: {a: yes, b: "1"}}\n`,
      );
      const facts = await all();
      expect(texts(facts)).toEqual([]);
      expect(facts.objects.get("EgressIP/a")).toMatchObject({ created: "2026-01-02T03:04:05Z" });
    }
  });

  it("refuses a key twice", async () => {
    expect(texts(await named(pod("a", "  name: b\n")))).toEqual([
      "file:a.yaml |  | line 8: Map keys must be unique",
    ]);
  });

  it("refuses a key that is no text", async () => {
    expect(texts(await named("? [a]\n: b\n"))).toEqual([
      "file:a.yaml |  | line 1: With stringKeys, all keys must be strings",
    ]);
  });

  it("lets no key reach a prototype", async () => {
    const facts = await named(
      pod("a", "  __proto__:\n    polluted: x\n").replace("app: web", "__proto__: web"),
    );
    expect(texts(facts)).toEqual(['Pod/web/a | metadata.labels["__proto__"] | is not a valid label key']);
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  });

  it("gives up on an alias bomb", async () => {
    const lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"];
    for (let at = 1; at < 10; at++)
      lines.push(
        `a${at}: &a${at} [${Array(9)
          .fill(`*a${at - 1}`)
          .join(", ")}]`,
      );
    expect(texts(await named(`${lines.join("\n")}\n`))).toEqual([
      "file:a.yaml |  | line 1: Excessive alias count indicates a resource exhaustion attack",
    ]);
  });

  it("lets an alias be", async () => {
    const facts = await named(pod("a").replace("name: a", "name: &name a").replace("app: web", "app: *name"));
    expect(facts.objects.get("Pod/web/a")).toMatchObject({ labels: { app: "a" } });
  });

  it.each([
    ["nested too deep", `a: ${"[".repeat(20_000)}`],
    ["nested too deep and closed", `a: ${"[".repeat(5_000)}${"]".repeat(5_000)}`],
    ["an object in itself", "&a\nkind: Pod\napiVersion: v1\nmetadata: *a\n"],
    ["an unknown tag", "!!js/function 'x'"],
    ["a tab", "a:\n\t- b\n"],
    ["a nul", "a: \0\n"],
    ["an unknown alias", "a: *b\n"],
  ])("of %s is a Problem", async (_what, text) => {
    const facts = await named(text);
    expect(facts.objects.size).toBe(0);
    expect(facts.problems.length).toBeGreaterThan(0);
    for (const problem of facts.problems) expect(problem.text).toMatch(/^[\x20-\x7e]+$/);
  });

  it("may have Windows line ends, a byte order mark, directives and document ends", async () => {
    write("a.yaml", `\uFEFF${pod("a1")}---\n${pod("a2")}`.replaceAll("\n", "\r\n"));
    write("b.yaml", `%YAML 1.2\n---\n${pod("b1")}...\n%YAML 1.2\n---\n${pod("b2")}`);
    write("c.yaml", `${pod("c1")}...\n${pod("c2")}--- # the third\n${pod("c3")}---`);
    const facts = await files.read();
    expect(texts(facts)).toEqual([]);
    expect(keys(facts)).toEqual(["a1", "a2", "b1", "b2", "c1", "c2", "c3"].map((name) => `Pod/web/${name}`));
  });

  it("may hold what looks like a marker in a block scalar", async () => {
    const script =
      "  annotations:\n    script: |\n      ---\n      ---\n      kind: Node\n    more: >-\n      ---x\n";
    write("a.yaml", `${pod("a1", script)}---\n${pod("a2", script)}`);
    const facts = await files.read();
    expect(texts(facts)).toEqual([]);
    expect(keys(facts)).toEqual(["Pod/web/a1", "Pod/web/a2"]);
  });

  it("is what JSON is, with a line for what is wrong in it", async () => {
    write("a.json", '{\n  "kind": "Pod",\n  "apiVersion": "v1"\n  "metadata": {}\n}\n');
    write("b.json", "");
    expect(texts(await files.read())).toEqual([expect.stringMatching(/^file:a\.json \| {2}\| line [345]: /)]);
  });
});

describe("the directory", () => {
  it("that is not there is not empty", async () => {
    const missing = openFiles(path.join(root, "missing"), { onChange: vi.fn() });
    await expect(missing.read()).rejects.toThrow(/^cannot read the folder .*missing: ENOENT/);
    mkdirSync(path.join(root, "missing"));
    expect((await missing.read()).objects.size).toBe(0);
    missing.close();
  });

  it("that is a file is not empty either", async () => {
    write("a.yaml", pod("a"));
    const wrong = openFiles(path.join(directory, "a.yaml"), { onChange: vi.fn() });
    await expect(wrong.read()).rejects.toThrow(/cannot read the folder/);
    wrong.close();
  });

  it("that vanishes throws until it is back, and then goes on where it was", async () => {
    write("a.yaml", pod("a"));
    const before = (await files.read()).objects.get("Pod/web/a");
    write("a.yaml", pod("a", '  resourceVersion: "2"\n'));
    write("b.yaml", pod("b"));
    renameSync(directory, path.join(root, "away"));
    await expect(files.read()).rejects.toThrow(/ENOENT/);
    await expect(all()).rejects.toThrow(/ENOENT/);
    renameSync(path.join(root, "away"), directory);
    const back = await files.read();
    expect(back.changed).toEqual(["Pod/web/b"]);
    expect(back.objects.get("Pod/web/a")).toBe(before);
  });

  it("that vanishes while it is read takes nothing with it", async () => {
    write("a.yaml", pod("a"));
    await files.read();
    const away = path.join(root, "away");
    vi.mocked(open).mockImplementationOnce((file, ...rest) => {
      renameSync(directory, away);
      return open(file, ...rest);
    });
    await expect(all()).rejects.toThrow(/ENOENT/);
    renameSync(away, directory);
    expect(await files.read()).toMatchObject({ changed: [], problems: [], version: 1 });
  });

  it("that cannot be listed leaves what was told for the next read", async () => {
    write("a.yaml", pod("a"));
    await files.read();
    write("b.yaml", pod("b"));
    await until(() => wakes > 0, "the wake-up");
    vi.mocked(readdir).mockRejectedValueOnce(new Error("EMFILE: too many open files"));
    await expect(all()).rejects.toThrow(/cannot read the folder .*objects: EMFILE/);
    expect((await files.read()).changed).toContain("Pod/web/b");
  });

  it("that is replaced by another is read anew, and watched", async () => {
    write("a.yaml", pod("a"));
    await files.read();
    const next = path.join(root, "next");
    mkdirSync(next);
    writeFileSync(path.join(next, "b.yaml"), pod("b"));
    renameSync(directory, path.join(root, "old"));
    renameSync(next, directory);
    expect((await all()).changed).toEqual(["Pod/web/a", "Pod/web/b"]);
    wakes = 0;
    write("c.yaml", pod("c"));
    await until(() => wakes > 0, "a wake-up from the new directory");
    expect(keys(await files.read())).toEqual(["Pod/web/b", "Pod/web/c"]);
  });

  it("that is removed and made again is watched again", async () => {
    write("a.yaml", pod("a"));
    await files.read();
    rmSync(directory, { recursive: true });
    await until(() => wakes > 0, "a wake-up for the removal");
    mkdirSync(directory);
    write("b.yaml", pod("b"));
    await readUntil((facts) => facts.objects.has("Pod/web/b") && facts.objects.size === 1, "the new file");
    wakes = 0;
    write("c.yaml", pod("c"));
    await until(() => wakes > 0, "a wake-up from the new directory");
    expect(keys(await files.read())).toEqual(["Pod/web/b", "Pod/web/c"]);
  });

  it("may be a ConfigMap, which changes by one link", async () => {
    const version = (name: string, text: string) => {
      mkdirSync(path.join(directory, name));
      write(`${name}/a.yaml`, text);
      symlinkSync(name, path.join(directory, "..data_tmp"));
      renameSync(path.join(directory, "..data_tmp"), path.join(directory, "..data"));
    };
    version("..2026_01", withLabel("a", "one"));
    symlinkSync("..data/a.yaml", path.join(directory, "a.yaml"));
    expect((await files.read()).objects.get("Pod/web/a")).toMatchObject({ labels: { app: "one" } });
    version("..2026_02", withLabel("a", "two"));
    const facts = await readUntil((now) => now.changed.length > 0, "the exchanged link");
    expect(facts.objects.get("Pod/web/a")).toMatchObject({ labels: { app: "two" } });
  });

  it("may hold a pipe, which nobody waits for", async () => {
    execFileSync("mkfifo", [path.join(directory, "pipe.yaml")]);
    write("a.yaml", pod("a"));
    expect(keys(await files.read())).toEqual(["Pod/web/a"]);
  });

  it.each(["new\nline.yaml", "'; reboot #.yaml", "$(id).yaml", "\u202Elmay.yaml", `${"n".repeat(250)}.yaml`])(
    "may hold a file named %j",
    async (name) => {
      write(name, "a: [\n");
      const { problems } = await files.read();
      expect(problems).toHaveLength(1);
      expect(problems[0]?.object).toMatch(/^file:[\x20-\x7e]{1,255}$/);
      expect(existsSync(path.join(directory, name))).toBe(true);
    },
  );
});

describe("any text", () => {
  it("never makes read() throw, and is forgotten once it is put right", async () => {
    await fc.assert(
      fc.asyncProperty(yamlLike, fc.constantFrom("f.yaml", "f.json"), async (content, name) => {
        write(name, content);
        const { problems } = await all();
        for (const { object, path: at, text } of problems)
          expect(`${object}${at}${text}`).toMatch(/^[\x20-\x7e]+$/);
      }),
      { numRuns: 200 },
    );
    write("f.yaml", pod("good"));
    rmSync(path.join(directory, "f.json"), { force: true });
    const facts = await all();
    expect(keys(facts)).toEqual(["Pod/web/good"]);
    expect(facts.problems).toEqual([]);
  }, 30_000);

  it("of bytes neither", async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 200 }), async (bytes) => {
        writeFileSync(path.join(directory, "f.yaml"), bytes);
        expect((await all()).objects.size).toBe(0);
      }),
      { numRuns: 100 },
    );
  }, 30_000);
});

describe("cost", () => {
  it("of one changed file among 20 000 pods is that file", async () => {
    for (let file = 0; file < 20; file++)
      write(
        `bulk-${file}.json`,
        JSON.stringify({
          apiVersion: "v1",
          kind: "PodList",
          items: Array.from({ length: 1_000 }, (_, at) => ({
            metadata: { name: `p${file}-${at}`, namespace: "web" },
          })),
        }),
      );
    write("small.yaml", `${pod("a")}---\n${pod("b")}`);
    const first = await files.read();
    expect(first.objects.size).toBe(20_002);
    const before = new Map(first.objects);
    write("small.yaml", `${pod("a")}---\n${withLabel("b", "new")}`);
    await until(() => wakes > 0, "the wake-up");
    const facts = await files.read();
    expect(facts.changed).toEqual(["Pod/web/b"]);
    const different = [...facts.objects].filter(([key, object]) => before.get(key) !== object);
    expect(different.map(([key]) => key)).toEqual(["Pod/web/b"]);
  });
});
