// The laws of the tree, checked by reading its imports: what is pure stays pure, lib never hears of egress IPs, nothing flows back.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";

const root = path.join(import.meta.dirname, "..");

interface Source {
  /** From the root, with slashes: `agent/model/ip.ts`. */
  readonly file: string;
  readonly text: string;
  /** Package names as written; relative ones resolved, from the root. */
  readonly imports: readonly string[];
}

const IMPORT =
  /(?:^|\n)\s*(?:import|export)\s[^"';]*?from\s*["']([^"']+)["']|import\s*\(?\s*["']([^"']+)["']/g;

function importsOf(file: string, text: string): readonly string[] {
  const code = text.replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, "");
  return [...code.matchAll(IMPORT)].map((found) => {
    const written = found[1] ?? found[2] ?? "";
    return written.startsWith(".") ? path.posix.join(path.posix.dirname(file), written) : written;
  });
}

function sourcesIn(directory: string): readonly Source[] {
  return readdirSync(path.join(root, directory), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts"))
    .sort()
    .map((name) => {
      const file = `${directory}/${name}`;
      const text = readFileSync(path.join(root, file), "utf8");
      return { file, text, imports: importsOf(file, text) };
    });
}

const agent = sourcesIn("agent");
const lib = sourcesIn("lib");
const under = (sources: readonly Source[], ...folders: readonly string[]) =>
  sources.filter(({ file }) => folders.some((folder) => file.startsWith(`${folder}/`)));
const pure = [
  ...under(agent, "agent/model", "agent/plan", "agent/assign"),
  ...agent.filter(({ file }) => /^agent\/trace(-\w+)?\.ts$/.test(file)),
  ...lib.filter(({ file }) => file.endsWith("/pure.ts")),
];

/** `FILE imports WHAT` for each import that `forbidden` names. */
function offences(sources: readonly Source[], forbidden: (wanted: string, file: string) => boolean) {
  return sources.flatMap(({ file, imports }) =>
    imports.filter((wanted) => forbidden(wanted, file)).map((wanted) => `${file} imports ${wanted}`),
  );
}

/** Everything that a file reaches inside the tree. */
function reached(from: Source): readonly Source[] {
  const all = new Map([...agent, ...lib].map((source) => [source.file, source]));
  const seen = new Map<string, Source>();
  const visit = (source: Source) => {
    if (seen.has(source.file)) return;
    seen.set(source.file, source);
    for (const wanted of source.imports) {
      const next = all.get(wanted);
      if (next !== undefined) visit(next);
    }
  };
  visit(from);
  return [...seen.values()];
}

describe("the reading of imports", () => {
  it.each([
    ['import { a } from "x";', ["x"]],
    ['import {\n  a,\n  type B,\n} from "./b.ts";', ["agent/model/b.ts"]],
    ['export { a } from "../c.ts";', ["agent/c.ts"]],
    ['import type { T } from "y";\nimport "z";', ["y", "z"]],
    ['const a = await import("w");', ["w"]],
    ['// import { a } from "x";\n/* import "y" */', []],
    ['export const a = 1;\nexport function from() { return "q"; }', []],
  ])("sees in %j %j", (text, expected) => {
    expect(importsOf("agent/model/a.ts", text)).toEqual(expected);
  });

  it("finds the tree", () => {
    expect(agent.length).toBeGreaterThan(50);
    expect(agent.find(({ file }) => file === "agent/loop.ts")?.imports).toContain("agent/sync/round.ts");
    expect([...agent, ...lib].flatMap(({ imports }) => imports)).not.toHaveLength(0);
  });

  it("finds every file that is imported", () => {
    const missing = offences(
      [...agent, ...lib],
      (wanted) => /^(agent|lib)\//.test(wanted) && !existsSync(path.join(root, wanted)),
    );
    expect(missing).toEqual([]);
  });
});

describe("the tree", () => {
  it("keeps model and plan free of the host, of packages, and of lib but for its pure doors", () => {
    const allowed = /^(agent\/(model|plan)\/|lib\/[^/]+\/pure\.ts$)/;
    const found = under(agent, "agent/model", "agent/plan");
    expect(offences(found, (wanted) => !allowed.test(wanted))).toEqual([]);
    const assigns = under(agent, "agent/assign");
    expect(offences(assigns, (wanted) => !/^agent\/(model|assign)\//.test(wanted))).toEqual([]);
  });

  it("lets nothing impure in through what the pure files reach", () => {
    const reachable = new Set(pure.flatMap((source) => reached(source)));
    expect(reachable.size).toBeGreaterThan(pure.length);
    expect(offences([...reachable], (wanted) => !/^(agent|lib)\//.test(wanted))).toEqual([]);
  });

  it("has no clock, no timer and no chance in pure code", () => {
    const impure =
      /\b(setTimeout|setInterval|setImmediate|queueMicrotask|Date\.now|new Date\(\)|performance\.|Math\.random|process\.|await\b)/;
    const found = new Set(pure.flatMap((source) => reached(source)));
    const offending = [...found].flatMap(({ file, text }) =>
      text
        .split("\n")
        .filter((line) => impure.test(line.replace(/\/\/.*$|^\s*\*.*$|\/\*.*?\*\//, "")))
        .map((line) => `${file}: ${line.trim()}`),
    );
    expect(offending).toEqual([]);
  });

  it("keeps lib from knowing the agent", () => {
    expect(offences(lib, (wanted) => wanted.startsWith("agent/"))).toEqual([]);
  });

  it("starts processes only in lib/exec", () => {
    const starts = /^(execa|node:child_process)$/;
    expect(
      offences([...agent, ...lib], (wanted, file) => starts.test(wanted) && !file.startsWith("lib/exec/")),
    ).toEqual([]);
  });

  it("speaks to API servers only in lib/kubernetes", () => {
    const speaks = /^(undici|@kubernetes\/client-node)(\/|$)/;
    expect(
      offences(
        [...agent, ...lib],
        (wanted, file) => speaks.test(wanted) && !file.startsWith("lib/kubernetes/"),
      ),
    ).toEqual([]);
  });

  it("has Prometheus' client in one file, and of it only what loads nothing else", () => {
    const client = (wanted: string) => wanted.startsWith("prom-client");
    const found = agent.filter(({ file, imports }) => !file.endsWith(".d.ts") && imports.some(client));
    expect(found.map(({ file }) => file)).toEqual(["agent/telemetry/metrics/registry.ts"]);
    expect(offences(lib, client)).toEqual([]);
    for (const { imports } of found)
      for (const wanted of imports.filter(client)) expect(wanted).toMatch(/^prom-client\/lib\/\w+\.js$/);
  });

  it("lets lib folders see of each other only what is exported for it", () => {
    const inside = (wanted: string, file: string) => {
      const [, , folder] = /^(lib\/([^/]+))\//.exec(wanted) ?? [];
      const own = /^lib\/([^/]+)\//.exec(file)?.[1];
      return folder !== undefined && folder !== own && !/\/(index|pure)\.ts$/.test(wanted);
    };
    expect(offences([...lib, ...agent], inside)).toEqual([]);
  });

  it("flows from inputs to model to plan to sync to telemetry, and never back", () => {
    const way = ["model", "assign", "plan", "inputs", "sync", "telemetry"];
    const allowed: Readonly<Record<string, readonly string[]>> = {
      model: ["model"],
      assign: ["model", "assign"],
      plan: ["model", "plan"],
      inputs: ["model", "inputs"],
      sync: ["model", "plan", "sync"],
      telemetry: ["model", "plan", "sync", "telemetry"],
    };
    const folderOf = (file: string) => /^agent\/([^/]+)\//.exec(file)?.[1] ?? "";
    const found = agent.filter(({ file }) => way.includes(folderOf(file)));
    const backwards = (wanted: string, file: string) =>
      folderOf(wanted) !== "" && !(allowed[folderOf(file)] as readonly string[]).includes(folderOf(wanted));
    expect(offences(found, backwards)).toEqual([]);
    // Of the files beside the folders only the last stage may look at the loop's Rounds and at its own settings.
    const beside = (wanted: string, file: string) =>
      /^agent\/[^/]+\.ts$/.test(wanted) && folderOf(file) !== "telemetry";
    expect(offences(found, beside)).toEqual([]);
  });

  it("gives commands and main nothing that imports them", () => {
    const commands = (wanted: string, file: string) =>
      /^agent\/(commands\/|main\.ts)/.test(wanted) && !/^agent\/(commands\/|main\.ts)/.test(file);
    expect(offences(agent, commands)).toEqual([]);
  });

  const protocols = readdirSync(path.join(root, "lib"), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name);

  it.each(protocols)("has a README and a door in lib/%s", (folder) => {
    const files = readdirSync(path.join(root, "lib", folder));
    expect(files).toEqual(expect.arrayContaining(["README.md", "index.ts"]));
    // What reads a tool's text has to be testable, and usable by the model, without the tool.
    const parses = under(lib, `lib/${folder}`).some(({ text }) => /\bclass ParseError\b/.test(text));
    expect(files.includes("pure.ts") || !parses).toBe(true);
  });

  it("names no place of the machine it was written on", () => {
    const test = sourcesIn("test").filter(({ file }) => file !== "test/architecture.test.ts");
    const places = /\/(work|root|home\/\w+)\//;
    expect(
      [...agent, ...lib, ...test].filter(({ text }) => places.test(text)).map(({ file }) => file),
    ).toEqual([]);
  });

  it("loads the client of an API server, and Prometheus', only where they are wanted", () => {
    const VALUE = /(?:^|\n)\s*(?:import|export)\s+(?!type\b)(?:[^"';]*?from\s*)?["']([^"']+)["']/g;
    const loaded = (source: Source): readonly string[] =>
      [...source.text.replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, "").matchAll(VALUE)].map(
        ([, written = ""]) =>
          written.startsWith(".") ? path.posix.join(path.posix.dirname(source.file), written) : written,
      );
    const all = new Map([...agent, ...lib].map((source) => [source.file, source]));
    const seen = new Set<string>();
    const visit = (wanted: string) => {
      if (seen.has(wanted)) return;
      seen.add(wanted);
      const source = all.get(wanted);
      if (source !== undefined) for (const next of loaded(source)) visit(next);
    };
    visit("agent/main.ts");
    expect(seen).toContain("agent/loop.ts");
    expect(
      [...seen].filter((wanted) =>
        /kubernetes\/client-node|undici|lib\/kubernetes|assemble-kubernetes|prom-client|metrics\/registry/.test(
          wanted,
        ),
      ),
    ).toEqual([]);
    expect(loaded(all.get("agent/assemble-kubernetes.ts") as Source)).toContain("lib/kubernetes/index.ts");
  });

  it("runs on Node 24", () => {
    expect(process.versions.node).toMatch(/^24\./);
  });
});
