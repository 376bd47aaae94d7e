// A folder of manifests as the one agent that assigns sees it: read once, whole, or not at all.
// In: a directory of YAML and JSON. Out: objects and problems. Throws where a file is no YAML: half of what there is gives away addresses
// that are in use.
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { type AssignObject, decodeForAssign } from "../assign/decode.ts";
import { originOf, parseValues } from "../inputs/documents.ts";
import { expand } from "../model/decode.ts";
import { byCodeUnit } from "../model/names.ts";
import type { Problem } from "../model/objects.ts";

export interface AssignObjects {
  readonly of: <K extends AssignObject["kind"]>(kind: K) => readonly Extract<AssignObject, { kind: K }>[];
  readonly problems: readonly Problem[];
}

export async function readAssignObjects(directory: string): Promise<AssignObjects> {
  const names = (await readdir(directory)).filter((name) => /\.(ya?ml|json)$/.test(name)).sort(byCodeUnit);
  const objects = new Map<string, AssignObject>();
  const problems: Problem[] = [];
  for (const name of names)
    for (const value of valuesOf(name, await readFile(path.join(directory, name), "utf8")))
      for (const item of expand(value)) {
        const decoded = decodeForAssign(item, originOf(name));
        problems.push(...decoded.problems);
        if (decoded.object === undefined) continue;
        const key = `${decoded.object.kind}/${decoded.object.name}`;
        if (objects.has(key))
          throw new Error(`${path.join(directory, name)}: ${key} is there twice; take one out`);
        objects.set(key, decoded.object);
      }
  const of = <K extends AssignObject["kind"]>(kind: K) =>
    [...objects.values()].filter(
      (object): object is Extract<AssignObject, { kind: K }> => object.kind === kind,
    );
  return { of, problems };
}

function valuesOf(name: string, text: string): readonly unknown[] {
  const parsed = parseValues(name, text);
  if (!("values" in parsed)) throw new Error(`${name}: line ${parsed.line + 1}: ${parsed.text}`);
  return parsed.values.filter((value) => value !== null && value !== undefined);
}
