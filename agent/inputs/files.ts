// A folder of YAML files standing in for the API server: what `kubectl get -o yaml` prints, as it changes.
// In: *.yaml, *.yml, *.json of one directory. Out: a live map of objects, and what is wrong in which file.
// A file that cannot be read keeps its last objects: half a file must not take half the egress IPs down.
// Longer than most files: one life of a watch, and of the reading that makes up for what it does not say.
import { constants, type FSWatcher, type Stats, watch } from "node:fs";
import { access, open, readdir, stat } from "node:fs/promises";
import path from "node:path";
import { isDeepStrictEqual } from "node:util";
import { byCodeUnit } from "../model/names.ts";
import type { KubernetesObject, Problem } from "../model/objects.ts";
import { oneLine } from "../model/raw.ts";
import { type Claim, Claims } from "./claims.ts";
import { type Document, originOf, type PlacedDocument, readDocuments } from "./documents.ts";

export interface FilesFacts {
  /**
   * By `keyOf`. One live map, the same at each read and changed in place by the next one: with 20 000 pods a
   * copy for each changed file would cost more than the change. Objects themselves are frozen, and stay the
   * same object while unchanged.
   */
  readonly objects: ReadonlyMap<string, KubernetesObject>;
  readonly problems: readonly Problem[];
  /** Goes up when objects or problems changed. */
  readonly version: number;
  /** Keys whose object was added, changed or removed since the last read() that did not throw; sorted. */
  readonly changed: readonly string[];
}

export interface Files {
  /**
   * What is known now, after re-reading the files that changed. `all` looks at each file's time, size and
   * inode instead of relying on having been told. Reads wait for one another. Throws an Error when the
   * directory is not there or cannot be read, now or since: never says "empty" for "unknown".
   */
  read(options?: { readonly all?: boolean }): Promise<FilesFacts>;
  close(): void;
}

/**
 * `onChange` is called when something in the directory changed, often several times for one change; read() is
 * never called from here.
 */
export function openFiles(directory: string, options: { readonly onChange: () => void }): Files {
  return new Folder(directory, options.onChange);
}

const bytesAtMost = 64 * 1024 * 1024;
const sliceMs = 20;
/**
 * A file changed this shortly before it was looked at may change again within one tick of the file system's
 * clock.
 */
const clockTickMs = 50;

interface FileState {
  /** Time, size and inode when last read; empty when that is not to be relied on. */
  readonly stamp: string;
  readonly claims: readonly Claim[];
  /** Documents by id, of the last good reading and of the last one. */
  readonly good: ReadonlyMap<string, Document>;
  readonly latest: ReadonlyMap<string, Document>;
}

/** What came of looking at one file; nothing is changed until all files are looked at. */
type Look =
  | { readonly name: string; readonly is: "gone" }
  | { readonly name: string; readonly is: "unreadable"; readonly stamp: string; readonly why: string }
  | {
      readonly name: string;
      readonly is: "read";
      readonly stamp: string;
      readonly placed: readonly PlacedDocument[];
    };

class Folder implements Files {
  readonly #directory: string;
  readonly #onChange: () => void;
  readonly #claims = new Claims();
  readonly #files = new Map<string, FileState>();
  readonly #problemsOfFile = new Map<string, readonly Problem[]>();
  #watcher: FSWatcher | undefined;
  /** Device and inode of the directory that is being watched. */
  #watched = "";
  #scanDue: boolean = true;
  #dirty = new Set<string>();
  #problems: readonly Problem[] = [];
  #version = 0;
  #closed: boolean = false;
  #last: Promise<unknown> = Promise.resolve();
  #breathedAt = 0;

  constructor(directory: string, onChange: () => void) {
    this.#directory = directory;
    this.#onChange = onChange;
  }

  read(options: { readonly all?: boolean } = {}): Promise<FilesFacts> {
    const facts = this.#last.then(() => this.#read(options.all ?? false));
    this.#last = facts.catch(() => undefined);
    return facts;
  }

  close(): void {
    this.#closed = true;
    this.#unwatch();
  }

  async #read(all: boolean): Promise<FilesFacts> {
    if (this.#closed) throw new Error(`the folder ${this.#directory} was closed`);
    const identity = await this.#identify();
    this.#watchIt(identity);
    const dirty = this.#dirty;
    const scan = all || this.#scanDue || this.#watcher === undefined;
    this.#dirty = new Set();
    this.#scanDue = false;
    this.#breathedAt = performance.now();
    try {
      const looks = await inBatches([...(scan ? await this.#scan(dirty) : dirty)], (name) =>
        this.#look(name),
      );
      // When the directory went away meanwhile, its files are not gone but unknown.
      if (looks.some((look) => look.is === "gone") && (await this.#identify()) !== identity)
        throw new Error(`the folder ${this.#directory} was replaced while it was read`);
      for (const look of looks) this.#take(look);
    } catch (error) {
      this.#scanDue = true;
      for (const name of dirty) this.#dirty.add(name);
      throw error;
    }
    return this.#facts();
  }

  /** Which directory it is. Throws when there is none to read. */
  async #identify(): Promise<string> {
    try {
      const stats = await stat(this.#directory);
      await access(this.#directory, constants.R_OK | constants.X_OK);
      if (!stats.isDirectory()) throw new Error("it is not a directory");
      return `${stats.dev}:${stats.ino}`;
    } catch (cause) {
      this.#unwatch();
      throw new Error(`cannot read the folder ${this.#directory}: ${textOf(cause)}`, { cause });
    }
  }

  /**
   * Watches before the first look, so that nothing falls between. Without a watch each read() looks at
   * everything.
   */
  #watchIt(identity: string): void {
    if (this.#watcher !== undefined && this.#watched === identity) return;
    this.#unwatch();
    this.#scanDue = true;
    try {
      const watcher = watch(this.#directory, (_event, name) => this.#noticed(name));
      watcher.on("error", () => this.#unwatch());
      this.#watcher = watcher;
      this.#watched = identity;
    } catch {
      // ENOSPC or EMFILE: fs.inotify.max_user_watches or max_user_instances are used up.
    }
  }

  #unwatch(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
  }

  #noticed(name: string | null): void {
    if (this.#closed) return;
    if (name !== null && isInput(name)) this.#dirty.add(name);
    // kubelet renames this link to change all files of a ConfigMap at once
    else if (name === null || name === "..data") this.#scanDue = true;
    else if (name !== path.basename(this.#directory)) return;
    // inotify says the directory's own name when it was itself moved or removed: the watch then sees nothing
    // more.
    if (name === path.basename(this.#directory)) this.#unwatch();
    this.#onChange();
  }

  /** Names to look at: told of, never seen, changed by their stamp, or known and no longer listed. */
  async #scan(told: ReadonlySet<string>): Promise<Iterable<string>> {
    let listed: string[];
    try {
      listed = (await readdir(this.#directory)).filter(isInput);
    } catch (cause) {
      throw new Error(`cannot read the folder ${this.#directory}: ${textOf(cause)}`, { cause });
    }
    const names = new Set(told);
    const present = new Set(listed);
    for (const name of this.#files.keys()) if (!present.has(name)) names.add(name);
    await inBatches(listed, async (name) => {
      const stamp = this.#files.get(name)?.stamp ?? "";
      if (stamp === "" || stamp !== (await stampOf(this.#pathOf(name)))) names.add(name);
    });
    return names;
  }

  async #look(name: string): Promise<Look> {
    try {
      // Opening a pipe would wait for its writer, so not blocking; and what it is, is asked of what was
      // opened.
      await using file = await open(this.#pathOf(name), constants.O_RDONLY | constants.O_NONBLOCK);
      const stats = await file.stat();
      if (!stats.isFile()) return { name, is: "gone" };
      const stamp = Date.now() - stats.mtimeMs < clockTickMs ? "" : stampText(stats);
      if (stats.size > bytesAtMost)
        return { name, is: "unreadable", stamp, why: `is larger than ${bytesAtMost} bytes` };
      const bytes = await file.readFile();
      if (stampText(await file.stat()) !== stampText(stats)) {
        this.#dirty.add(name);
        return { name, is: "unreadable", stamp: "", why: "was written while it was read" };
      }
      const state = this.#files.get(name);
      // The moment between truncating and writing looks like this; a file with only a comment in it is empty
      // on purpose.
      if (bytes.length === 0 && (state?.claims.length ?? 0) > 0)
        return { name, is: "unreadable", stamp, why: "is empty; remove the file if that is meant" };
      const known = (id: string) => state?.latest.get(id) ?? state?.good.get(id);
      return {
        name,
        is: "read",
        stamp,
        placed: await readDocuments(name, bytes, known, () => this.#breathe()),
      };
    } catch (error) {
      if (isMissing(error)) return { name, is: "gone" };
      return { name, is: "unreadable", stamp: "", why: `cannot be read: ${textOf(error)}` };
    }
  }

  #take(look: Look): void {
    const before = this.#files.get(look.name);
    const kept = before ?? { stamp: "", claims: [], good: new Map(), latest: new Map() };
    if (look.is === "gone") {
      this.#files.delete(look.name);
      this.#setProblems(look.name, []);
      this.#claims.exchange(look.name, kept.claims, []);
      return;
    }
    if (look.is === "unreadable") {
      this.#files.set(look.name, { ...kept, stamp: look.stamp });
      this.#setProblems(look.name, [this.#notRead(look.name, look.why, kept)]);
      return;
    }
    const latest = new Map(look.placed.map(({ id, document }) => [id, document]));
    const bad = look.placed.find(({ document }) => document.fault !== undefined);
    if (bad?.document.fault !== undefined) {
      const { line, text } = bad.document.fault;
      this.#files.set(look.name, { ...kept, stamp: look.stamp, latest });
      this.#setProblems(look.name, [this.#notRead(look.name, `line ${bad.line + line}: ${text}`, kept)]);
      return;
    }
    const claims = claimsOf(look.name, look.placed);
    this.#files.set(look.name, { stamp: look.stamp, claims, good: latest, latest });
    this.#setProblems(
      look.name,
      look.placed.flatMap((placed) => problemsOf(look.name, placed)),
    );
    this.#claims.exchange(look.name, kept.claims, claims);
  }

  #notRead(name: string, why: string, kept: FileState): Problem {
    const consequence =
      kept.claims.length > 0 ? `; the ${kept.claims.length} objects last read from it stay` : "";
    return { object: originOf(name), path: "", text: `${why}${consequence}` };
  }

  #setProblems(name: string, problems: readonly Problem[]): void {
    if (problems.length === 0) this.#problemsOfFile.delete(name);
    else this.#problemsOfFile.set(name, problems);
  }

  #facts(): FilesFacts {
    const problems = [...[...this.#problemsOfFile.values()].flat(), ...this.#claims.conflicts].sort(byText);
    const changed = this.#claims.takeChanged();
    const problemsChanged = !isDeepStrictEqual(problems, this.#problems);
    if (problemsChanged) this.#problems = Object.freeze(problems);
    if (problemsChanged || changed.length > 0) this.#version++;
    return { objects: this.#claims.objects, problems: this.#problems, version: this.#version, changed };
  }

  /** Lets the rest of the agent run while a large folder is read for the first time. */
  async #breathe(): Promise<void> {
    if (performance.now() - this.#breathedAt < sliceMs) return;
    await new Promise((resolve) => setImmediate(resolve));
    this.#breathedAt = performance.now();
  }

  #pathOf(name: string): string {
    return path.join(this.#directory, name);
  }
}

/** Neither hidden files nor what editors leave about (`x.yaml~`, `.x.yaml.swp`, `4913`, `x.yaml.tmp`). */
function isInput(name: string): boolean {
  return !name.startsWith(".") && /\.(yaml|yml|json)$/.test(name);
}

/**
 * All answers in order, a few at a time: one by one most of the time goes into waiting, all at once into open
 * files.
 */
async function inBatches<T>(
  names: readonly string[],
  ask: (name: string) => Promise<T>,
): Promise<readonly T[]> {
  const answers: T[] = [];
  const size = 32;
  for (let at = 0; at < names.length; at += size)
    answers.push(...(await Promise.all(names.slice(at, at + size).map(ask))));
  return answers;
}

async function stampOf(file: string): Promise<string> {
  try {
    return stampText(await stat(file));
  } catch {
    return "";
  }
}

function stampText({ ino, size, mtimeMs, ctimeMs }: Stats): string {
  return `${ino}:${size}:${mtimeMs}:${ctimeMs}`;
}

function claimsOf(file: string, placed: readonly PlacedDocument[]): readonly Claim[] {
  let position = 0;
  return placed.flatMap(({ document, line }) =>
    document.entries.map((entry) => ({ file, line, position: position++, entry })),
  );
}

/** The file and line for what has no name of its own; an object's problems find their way by its name. */
function problemsOf(name: string, { document, line }: PlacedDocument): readonly Problem[] {
  const origin = originOf(name);
  return document.problems.map((problem) =>
    problem.object === origin ? { ...problem, text: `document at line ${line}: ${problem.text}` } : problem,
  );
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && "code" in error && (error.code === "ENOENT" || error.code === "ENXIO");
}

function textOf(error: unknown): string {
  return oneLine(error instanceof Error ? error.message : String(error), 200);
}

function byText(a: Problem, b: Problem): number {
  return byCodeUnit(a.object, b.object) || byCodeUnit(a.path, b.path) || byCodeUnit(a.text, b.text);
}
