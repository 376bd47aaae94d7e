// The last state of the objects that was confirmed, on disk: what an agent goes on with that starts while the API server is away.
// In: Objects. Out: a folder that `--manifests` reads, cut down to what concerns this node; and what is in it.
// Written beside the rounds, in slices, at most once in a while; the file takes its name when it is complete and on the disk.
import { mkdir, open, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Objects } from "../../model/build.ts";
import { decode, expand } from "../../model/decode.ts";
import { type KubernetesObject, keyOf, type Pod, type Problem } from "../../model/objects.ts";
import { isObject } from "../../model/raw.ts";
import type { SelectedPod } from "../../model/selection.ts";
import { entriesOf, getFrom, type Shards } from "../../model/shards.ts";
import { encode } from "./encode.ts";
import type { Kind } from "./kinds.ts";

export interface LastGood {
  /** ISO 8601. */
  readonly written: string;
  readonly objects: ReadonlyMap<string, KubernetesObject>;
  readonly problems: readonly Problem[];
  readonly changed: Iterable<string>;
  /** As far as the server had come, by kind. */
  readonly versions: Readonly<Partial<Record<Kind, string>>>;
}

/** What is to be kept of a round. */
export interface Good {
  readonly objects: Objects;
  readonly selected: Shards<SelectedPod>;
  readonly versions: Readonly<Partial<Record<Kind, string>>>;
}

export interface LastGoodFile {
  /** Undefined when there is none. Throws an Error that names the file when it cannot be understood, or is another node's. */
  read(): Promise<LastGood | undefined>;
  /** To be written, soon. Nothing is, when it is what was offered before. */
  offer(good: Good): void;
  /** What was offered is written when this resolves. Rejects when it cannot be. */
  flush(): Promise<void>;
}

export interface LastGoodParts {
  readonly stateDirectory: string;
  readonly node: string;
  readonly now: () => Date;
  after(ms: number, act: () => void): () => void;
  readonly firstMs: number;
  readonly everyMs: number;
  onFailure(error: Error): void;
}

const FOLDER = "last-good";
const NODE = "egressip-agent/node";
const WRITTEN = "egressip-agent/written";
const VERSION = "egressip-agent/resource-version-";
const SLICE = 256 * 1024;

export function lastGoodIn(parts: LastGoodParts): LastGoodFile {
  const directory = join(parts.stateDirectory, FOLDER);
  const path = join(directory, "objects.json");
  let offered: Good | undefined;
  let written: Good | undefined;
  let callOff: (() => void) | undefined;
  let delay = parts.firstMs;
  let writing: Promise<void> = Promise.resolve();
  const write = async (good: Good): Promise<void> => {
    await mkdir(directory, { recursive: true, mode: 0o700 });
    const file = await open(`${path}.new`, "w", 0o600);
    try {
      for (const slice of slicesOf(good, parts)) await file.write(slice);
      // A node that lost its power starts without the API server, too.
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(`${path}.new`, path);
  };
  const flush = (): Promise<void> => {
    callOff?.();
    callOff = undefined;
    writing = writing
      .catch(() => {})
      .then(async () => {
        const good = offered;
        if (good === undefined || isSame(good, written)) return;
        await write(good);
        written = good;
      });
    return writing;
  };
  return {
    read: () => readLastGood(path, parts.node),
    offer: (good) => {
      offered = good;
      if (callOff !== undefined || isSame(good, written)) return;
      callOff = parts.after(delay, () => {
        delay = parts.everyMs;
        flush().catch((error: unknown) =>
          parts.onFailure(error instanceof Error ? error : new Error(String(error))),
        );
      });
    },
    flush,
  };
}

/** Nothing is to be gone on with. */
export async function forgetLastGood(stateDirectory: string): Promise<void> {
  await rm(join(stateDirectory, FOLDER), { recursive: true, force: true });
}

/** The server goes on while nothing that concerns this node changes: its versions alone are no reason to write. */
function isSame(a: Good, b: Good | undefined): boolean {
  return (
    b !== undefined &&
    a.selected === b.selected &&
    (["egressIPs", "nodes", "namespaces", "pods"] as const).every(
      (kind) => a.objects[kind] === b.objects[kind],
    )
  );
}

/** Texts of some size, made one at a time: all of it at once would hold up everything else. */
function* slicesOf({ objects, selected, versions }: Good, { node, now }: LastGoodParts): Generator<string> {
  const annotations = {
    [NODE]: node,
    [WRITTEN]: now().toISOString(),
    ...Object.fromEntries(Object.entries(versions).map(([kind, version]) => [`${VERSION}${kind}`, version])),
  };
  let text = `{"apiVersion":"v1","kind":"List","metadata":${JSON.stringify({ annotations })},"items":[`;
  let separator = "\n";
  for (const object of concerning(node, objects, selected)) {
    text += `${separator}${JSON.stringify(encode(object))}`;
    separator = ",\n";
    if (text.length < SLICE) continue;
    yield text;
    text = "";
  }
  yield `${text}\n]}\n`;
}

/** Everything but pods of other nodes that no egress IP of this one speaks for, and those that have no address of their own. */
function* concerning(
  node: string,
  objects: Objects,
  selected: Shards<SelectedPod>,
): Generator<KubernetesObject> {
  yield* objects.egressIPs.values();
  yield* objects.nodes.values();
  yield* objects.namespaces.values();
  for (const [key, pod] of entriesOf(objects.pods))
    if (getFrom(selected, key) !== undefined || isOwn(node, pod)) yield pod;
}

function isOwn(node: string, pod: Pod): boolean {
  return pod.node === node && !pod.hostNetwork && !pod.finished;
}

async function readLastGood(path: string, node: string): Promise<LastGood | undefined> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
  const list = parsed(path, text);
  const { annotations = {} } = (list["metadata"] ?? {}) as { annotations?: Record<string, string> };
  const { [NODE]: of, [WRITTEN]: written } = annotations;
  if (of !== node || written === undefined)
    throw new Error(`${path}: is the state of node ${of ?? "(none)"}, not of ${node}; it is not used`);
  const objects = new Map<string, KubernetesObject>();
  for (const raw of expand(list)) {
    const { object } = decode(raw);
    if (object === undefined)
      throw new Error(`${path}: not what an agent of this version wrote; it is not used`);
    objects.set(keyOf(object), object);
  }
  const versions = Object.fromEntries(
    Object.entries(annotations).flatMap(([key, version]) =>
      key.startsWith(VERSION) ? [[key.slice(VERSION.length), version]] : [],
    ),
  );
  return { written, objects, problems: [], changed: [...objects.keys()], versions };
}

function parsed(path: string, text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    if (isObject(value) && Array.isArray(value["items"])) return value;
  } catch {
    // As below.
  }
  throw new Error(`${path}: not a list of objects; it is not used`);
}
