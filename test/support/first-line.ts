// How node is to be started for the agent: what the first line of its bundle says. Out: variables and flags.
import { readFileSync } from "node:fs";

const text = readFileSync(new URL("../../agent/main.ts", import.meta.url), "utf8");
const [, before = "", after = ""] = /^#!\/usr\/bin\/env -S (.*)\bnode (.*)$/m.exec(text) ?? [];
const words = (part: string) => part.split(" ").filter((word) => word !== "");

/** `NAME=VALUE` each. */
export const variables: readonly string[] = words(before);
export const flags: readonly string[] = words(after);
